"""The corpus of public bugs, and the tests here that would have caught each bug."""
