"""The published verdict on a kernel or a launch: dataclasses, JSON, schema, SARIF and JUnit."""
