"""What is decided about a Program before it is emitted, and what is rewritten.

written.py    branches that write a part of an array give the part, which is written behind them
legalize.py   loops in operations that kernels have: keys as words, draws and sorts as others
whole.py      small Programs as one kernel, on words of keys or parts of complex numbers, too
bundles.py    one kernel of more arrays than a dispatch has bindings for, as several
cost.py       how much work a Program is: small programs run inline, which loops become kernels
choices.py    choices between an array and a change of it, as changes that are made or not
reads.py      updates behind what else reads their operand, in loops
hazards.py    updates in place whose operand is read elsewhere
flat.py       calls within a loop written out, for the passes that look into it
clients.py    primitives of libraries become calls of what they compute
narrow.py     numbers of less than a byte and floats of a byte, as bytes
empty.py      arrays without elements, which loops do not carry
parts.py      slices of what was joined or repeated read what it was made of
same.py       equations that compute the same are one
reroll.py     loops that Python wrote out, as loops
hoist.py      what a loop computes anew in every step is computed before it
messages.py   sums over processes that are one message
accumulate.py sums over the steps of a scan are taken behind it
panels.py     matrices that a kernel's loop multiplies by are laid out before it
groups.py     equations that become one kernel of ours, found by the next two
rows.py       groups of equations over independent rows, each of which becomes one kernel
picks.py      rows that a gather picks, read by a group where they are
attention.py  products around a group of rows, without a square matrix between them
points.py     rows of few numbers, as those of loops in registers
masks.py      products with bools, which choose between numbers and 0
known.py      whole numbers that follow from literals alone, arrays of one number
undone.py     moves of what was moved the other way, sums of what is repeated
phases.py     elements k apart as rows of k numbers
padded.py     sums of padded arrays as joined sums of parts
wide.py       reductions over few numbers side by side, over wider rows
edges.py      arrays with edges around them, joined of their parts, as one copy
places.py     which axes of arrays those rows have, and the program of a group of them
planes.py     coordinates first in loops over memory
shared.py     triangular systems of a batch that share their matrix are one
vectors.py    products with a vector for each of a batch, as sums
staged.py     reductions of more than a cache holds, in two stages, or of few side by side
blocks.py     transposed convolutions whose windows lie side by side, as products
selected.py   large windows of an array computed of it, as a choice between old and new
turned.py     transpositions computed alone, where what reads them reads other arrays as they lie
epilogues.py  bias, residual and relu as part of the convolution before them
spmm.py       rows that are gathered, multiplied and added up: a sparse matrix times a dense one
replacement.py  equations in the place of one
lists.py      the same elementwise work on many arrays of any sizes
uneven.py     elementwise work of sizes that IREE does not cut into vectors
chains.py     long elementwise stretches
remainder.py  what would be left to IREE, where that can be kernels; strided.py: views of arrays
assembled.py  arrays joined of what is computed, each part in its place
orders.py     sorts of unsigned keys as kernels
repeats.py    numbers that are all that layers differ by
components.py points taken apart into coordinates, so that rows of pairs are groups
graph.py      which equations follow from which, while groups of them become one
loops.py      which bodies have a form as a kernel
split.py      a loop over rows that do not know each other, as a loop over a part of them
registers.py  loops whose rows run in registers; scalars.py evaluates their Programs
"""
