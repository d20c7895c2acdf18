"""What the golden files hold, one module a subject: records and the cases that read them."""
