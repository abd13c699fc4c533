"""Data through Spark: sessions, DataFrames, SQL. The only package that imports pyspark."""
