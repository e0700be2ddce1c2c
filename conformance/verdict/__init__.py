"""The verdict on a kernel or a launch, as a contract for machines: dataclasses, their JSON and its schema."""
