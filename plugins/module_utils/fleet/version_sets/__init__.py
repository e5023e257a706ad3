"""Version sets: the matrix, the solver, the checker, and what each vLLM version accepts."""
