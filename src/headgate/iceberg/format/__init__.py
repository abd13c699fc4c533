"""The bytes of Iceberg tables: metadata files, snapshots, manifests, delete files, and their locations."""
