"""`virtflow doctor`: looks at every part this process would use, and says how to mend what is wrong."""
