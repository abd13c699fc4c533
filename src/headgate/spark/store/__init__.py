"""A store on Spark's Hadoop client, for HDFS and other Hadoop file systems."""
