"""What is shown: stories, the matrix, the terminal summary, the JSON report, the catalogue pages."""
