"""Line templates: a user states what the lines of a log mean, and nothing is guessed."""
