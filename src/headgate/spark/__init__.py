"""Data through Spark: the only folder that imports pyspark."""
