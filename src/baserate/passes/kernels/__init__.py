"""Compiled passes for log loss and the Brier score: one loop over the rows of a block reads, checks and adjusts them.

A pass copies 64 rows at a time into a *tile*, an array with one line per class. The inner loops then run over the rows
of the tile, its *lanes*, and use the vector units of the processor. The *wide* passes are for many classes: their inner
loops run over the classes of one row. Each pass reads the data once and allocates only the tile.

``cells`` has passes for rates per group, and ``groups`` solves many small groups in one call.

All passes in ``log``, ``brier`` and ``wide`` take the same arguments:

raw : array of shape (n, k)
    The predictions as given.
weights : array of shape (n,)
factor or half : array of shape (n_kept,)
    The shift of the kept classes in the form that the pass needs: ``exp(shift - centre)`` for log loss, ``shift / 2``
    for the Brier score.
centre : float
    What was subtracted from the shift before exponentiation; not used for the Brier score.
keep : array of shape (n_kept,)
    Indices of the kept classes: those with a positive rate. Not used by the passes for log loss.
smoothing, tolerance : float
    What is added to every probability, and how far the sum of a row may be from 1.
todo : int
    What to compute besides the sums of the dual function: the bits SURVEY, CURVATURE and WRITE of ``layout``. The wide
    passes do not compute CURVATURE.
before : array of shape (k,)
    Filled by SURVEY: the weighted sum of the predictions.
mean : array of shape (n_kept,)
    Filled by every pass: the weighted sum of the adjusted rows.
edges : array of shape (n_kept, n_kept)
    Filled by CURVATURE, below the diagonal: edge weights of the graph whose Laplacian is the curvature.
sums : array of shape (N_SUMS,)
    Other sums, at the positions in ``layout``.
rows : array of shape (n, k)
    Filled by WRITE: the adjusted rows, in float64 or float32.
rounded : array of shape (n_kept,), or None if ``rows`` is float64
    Filled by WRITE: the weighted sum of the rows after rounding to float32. The divergence and the shortfall in
    ``sums`` are then those of the rounded rows, while ``mean`` is that of the exact ones. The compiler removes the code
    for float32 if it is None.

Sums are added to what the arrays already contain. A pass returns DONE, or else a row in whose tile it found something
that it cannot compute. The caller then uses NumPy for the block, which also writes the error message for invalid rows.
"""
