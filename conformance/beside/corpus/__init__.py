"""The corpus of public bugs, and which tests here would have caught each."""
