"""What campaigns do outside: submit and delete arrays, run stress and mail programs."""
