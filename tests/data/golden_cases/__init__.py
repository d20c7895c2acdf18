"""Contents of the golden files, one module for each subject: records and their cases."""
