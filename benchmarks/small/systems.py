"""Small loops that compute: filters, physics, differential equations, dynamic programming, graphs
and cellular automata.

Each program takes a key and is written once over the package that SMALL_LOOPS names; run by
../small_loops.py.
"""
from __future__ import annotations

from typing import Any

from agents import J, lax, np, rand


# ---- filters
def _pendulum(x: Any) -> Any:
    return np.stack([x[0] + 0.1 * x[1], x[1] - 0.1 * 4.0 * np.sin(x[0])])


def _likelihood(key: Any, noise: Any) -> Any:
    """Of 100 angles, by an extended Kalman filter of a pendulum."""
    def step(state: Any, seen: Any) -> Any:
        x, spread = state
        slope = J.jacfwd(_pendulum)(x)
        x, spread = _pendulum(x), slope @ spread @ slope.T + noise * np.eye(2)
        width = spread[0, 0] + 0.1
        miss = seen - x[0]
        gain = spread[:, 0] / width
        spread = spread - gain[:, None] * spread[0]
        return (x + gain * miss, spread), -0.5 * (miss ** 2 / width + np.log(width))

    seen = np.sin(0.2 * np.arange(100.0)) + 0.3 * rand.normal(key, (100,))
    return lax.scan(step, (np.zeros(2), np.eye(2)), seen)[1].sum()


def extended_kalman(key: Any) -> Any:
    """The likelihood of 100 angles of a pendulum."""
    return _likelihood(key, 0.01)


def extended_kalman_gradient(key: Any) -> Any:
    """Its derivative by the noise."""
    return J.grad(lambda noise: _likelihood(key, noise))(0.01)


def unscented_kalman(key: Any) -> Any:
    """The same angles by sigma points."""
    weights = np.array([1 / 3] + [1 / 6] * 4)

    def step(state: Any, seen: Any) -> Any:
        x, spread = state
        root = np.sqrt(3.0) * np.linalg.cholesky(spread)
        points = np.concatenate([x[None], x + root.T, x - root.T])
        points = J.vmap(_pendulum)(points)
        x = weights @ points
        away = points - x
        spread = (weights[:, None] * away).T @ away + 0.01 * np.eye(2)
        gain = spread[:, 0] / (spread[0, 0] + 0.1)
        x = x + gain * (seen - x[0])
        return (x, spread - gain[:, None] * spread[0]), x

    seen = np.sin(0.2 * np.arange(100.0)) + 0.3 * rand.normal(key, (100,))
    return lax.scan(step, (np.zeros(2), np.eye(2)), seen)[1]


def particle_filter(key: Any) -> Any:
    """50 steps of 128 particles, resampled in strata by searchsorted."""
    def step(x: Any, turn: Any) -> Any:
        seen, sub = turn
        a, b = rand.split(sub)
        x = J.vmap(_pendulum)(x) + 0.1 * rand.normal(a, (128, 2))
        weight = J.nn.softmax(-5 * (x[:, 0] - seen) ** 2)
        at = (np.arange(128) + rand.uniform(b)) / 128
        x = x[np.clip(np.searchsorted(np.cumsum(weight), at), 0, 127)]
        return x, (weight[:, None] * x).sum(0)

    seen = np.sin(0.2 * np.arange(50.0))
    return lax.scan(step, np.zeros((128, 2)), (seen, rand.split(key, 50)))[1]


# ---- physics
def _swing(angles: Any) -> Any:
    """A chain of pendulums under springs, 200 steps of symplectic Euler."""
    def step(state: Any, _: Any) -> Any:
        x, speed = state
        left = np.concatenate([x[:1], x[:-1]])
        right = np.concatenate([x[1:], x[-1:]])
        speed = speed + 0.01 * (-9.8 * np.sin(x) + 5.0 * (left + right - 2 * x))
        return (x + 0.01 * speed, speed), None
    return lax.scan(step, (angles, np.zeros_like(angles)), None, 200)[0]


def pendulums(key: Any) -> Any:
    """16 coupled pendulums."""
    return _swing(rand.normal(key, (16,)))


def pendulums_gradient(key: Any) -> Any:
    """How the last angles depend on the first."""
    return J.grad(lambda x: (_swing(x)[0] ** 2).sum())(rand.normal(key, (16,)))


def flock(key: Any) -> Any:
    """100 steps of 32 birds that follow their neighbours (Reynolds 1987)."""
    def step(state: Any, _: Any) -> Any:
        x, speed = state
        away = x[:, None] - x
        far = (away ** 2).sum(-1)
        near = ((far < 0.09) & (far > 0)).astype(x.dtype)
        count = np.maximum(near.sum(1), 1)[:, None]
        middle = near @ x / count - x
        along = near @ speed / count - speed
        apart = (near[..., None] * away / (far + 0.01)[..., None]).sum(1)
        speed = speed + 0.01 * middle + 0.05 * along + 0.001 * apart
        speed = speed / np.maximum(np.sqrt((speed ** 2).sum(1)), 0.5)[:, None]
        return ((x + 0.02 * speed) % 1.0, speed), speed.mean(0)

    a, b = rand.split(key)
    return lax.scan(step, (rand.uniform(a, (32, 2)), rand.normal(b, (32, 2))), None, 100)[1]


def fluid(key: Any) -> Any:
    """20 steps of smoothed particles: 36 of them in a box (after Mueller 2003)."""
    def step(state: Any, _: Any) -> Any:
        x, speed = state
        away = x[:, None] - x
        close = np.maximum(1 - np.sqrt((away ** 2).sum(-1) + 1e-9) / 0.3, 0.0)
        dense = (close ** 2).sum(1)
        press = (dense - 2.0) / dense
        push = (press[:, None] + press) * close
        speed = speed + 0.002 * ((push[..., None] * away).sum(1) * 20 - np.array([0.0, 9.8])
                                 + (close[..., None] * (speed - speed[:, None])).sum(1))
        x = x + 0.002 * speed
        speed = np.where((x < 0) | (x > 1), -0.5 * speed, speed)
        return (np.clip(x, 0.0, 1.0), speed), dense.mean()

    grid = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), -1).reshape(36, 2) / 7
    start = grid + 0.02 * rand.normal(key, (36, 2))
    (x, _), dense = lax.scan(step, (start, np.zeros((36, 2))), None, 20)
    return x, dense


def _hang(key: Any, stiff: Any) -> Any:
    """A cloth of 8 x 8 points that hangs by two corners, 100 steps."""
    held = np.ones((8, 8, 1)).at[0, 0].set(0.0).at[0, 7].set(0.0)

    def pull(x: Any, axis: int) -> Any:
        way = np.diff(x, axis=axis)
        length = np.sqrt((way ** 2).sum(-1, keepdims=True))
        force = stiff * (length - 1) * way / length
        rim = [(0, 0)] * 3
        rim[axis] = (1, 1)
        force = np.pad(force, rim)
        return np.diff(force, axis=axis)

    def step(state: Any, _: Any) -> Any:
        x, speed = state
        force = pull(x, 0) + pull(x, 1) - np.array([0.0, 0.0, 0.2]) - 0.1 * speed
        speed = held * (speed + 0.05 * force)
        return (x + 0.05 * speed, speed), None

    flat = np.stack([*np.meshgrid(np.arange(8.0), np.arange(8.0)), np.zeros((8, 8))], -1)
    flat = flat + 0.05 * rand.normal(key, flat.shape)
    return lax.scan(step, (flat, np.zeros_like(flat)), None, 100)[0][0]


def cloth(key: Any) -> Any:
    """The points after 100 steps."""
    return _hang(key, 20.0)


def cloth_gradient(key: Any) -> Any:
    """The derivative of its mean height by the stiffness."""
    return J.grad(lambda stiff: _hang(key, stiff)[..., 2].mean())(20.0)


def contacts(key: Any) -> Any:
    """100 steps of 8 discs in a box, impulses found by ten sweeps of projected Gauss-Seidel."""
    i, j = np.triu_indices(8, 1)

    def step(state: Any, _: Any) -> Any:
        x, speed = state
        speed = speed - np.array([0.0, 0.05])
        way = x[i] - x[j]
        length = np.sqrt((way ** 2).sum(1) + 1e-9)
        normal, touch = way / length[:, None], length < 0.2

        def sweep(_: Any, speed: Any) -> Any:
            toward = ((speed[i] - speed[j]) * normal).sum(1)
            push = np.where(touch, np.maximum(-0.4 * toward, 0.0), 0.0)[:, None] * normal
            return speed.at[i].add(push).at[j].add(-push)
        speed = lax.fori_loop(0, 10, sweep, speed)
        speed = np.where((x < 0.1) & (speed < 0) | (x > 0.9) & (speed > 0), -0.5 * speed, speed)
        return (x + 0.02 * speed, speed), touch.sum()

    return lax.scan(step, (rand.uniform(key, (8, 2)), np.zeros((8, 2))), None, 100)[1]


# ---- differential equations
def adaptive_steps(key: Any) -> Any:
    """Van der Pol's oscillator to time 10, by Bogacki and Shampine's steps of adapted size."""
    def slope(y: Any) -> Any:
        return np.stack([y[1], 3 * (1 - y[0] ** 2) * y[1] - y[0]])

    def step(state: Any) -> Any:
        time, y, size, count = state
        size = np.minimum(size, 10.0 - time)
        a = slope(y)
        b = slope(y + size / 2 * a)
        c = slope(y + 0.75 * size * b)
        new = y + size * (2 * a + 3 * b + 4 * c) / 9
        miss = size * (-5 / 72 * a + b / 12 + c / 9 - slope(new) / 8)
        error = np.sqrt(((miss / (1e-4 + 1e-3 * np.abs(y))) ** 2).mean())
        good = error < 1
        time, y = np.where(good, time + size, time), np.where(good, new, y)
        return time, y, size * np.clip(0.9 * error ** (-1 / 3), 0.2, 5.0), count + 1

    start = (0.0, np.array([2.0, 0.0]) + 0.1 * rand.normal(key, (2,)), 0.1, 0)
    return lax.while_loop(lambda s: (s[0] < 9.999) & (s[3] < 1000), step, start)[1]


def implicit_steps(key: Any) -> Any:
    """Robertson's reaction by 60 growing steps of implicit Euler, Newton's method in each."""
    def slope(y: Any) -> Any:
        a, b, c = 0.04 * y[0], 1e2 * y[1] * y[2], 3e3 * y[1] ** 2
        return np.stack([b - a, a - b - c, c])

    def step(y: Any, size: Any) -> Any:
        def newton(state: Any) -> Any:
            x, _, count = state
            miss = x - y - size * slope(x)
            move = np.linalg.solve(np.eye(3) - size * J.jacfwd(slope)(x), miss)
            return x - move, np.abs(move).max(), count + 1
        y, _, count = lax.while_loop(
            lambda s: (s[1] > 1e-5) & (s[2] < 10), newton, (y, np.inf, 0))
        return y, (y, count)

    start = np.array([1.0, 0.0, 0.0]) + 0.1 * rand.uniform(key, (3,))
    return lax.scan(step, start, 0.01 * 1.1 ** np.arange(60.0))[1][0]


def checkpoints(key: Any) -> Any:
    """1,400 steps of a number, of which 64 are kept as a loop does that will be run backwards."""
    def some(free: Any, steps: Any, levels: Any) -> Any:
        at = np.argmax(free * steps)
        return at, 0, free.at[at].set(False)

    def none(free: Any, steps: Any, levels: Any) -> Any:
        at = np.argmax(steps)
        return at, levels[at] + 1, np.where(levels < levels[at], True, free)

    def step(state: Any) -> Any:
        i, y, levels, steps, free, kept = state
        at, level, free = lax.cond(free.any(), some, none, free, steps, levels)
        return (i + 1, y * 0.999 + np.sin(y) * 1e-3, levels.at[at].set(level),
                steps.at[at].set(i), free, kept.at[at].set(y))

    zero = np.zeros(64, "int32")
    start = (0, rand.normal(key), zero, zero + (1 << 30), zero > 0, np.zeros(64))
    return lax.while_loop(lambda s: s[0] < 1400, step, start)[1:]


# ---- dynamic programming
def local_alignment(key: Any) -> Any:
    """Smith and Waterman's score of two words of 64 letters, a diagonal at a time."""
    a, b = rand.randint(key, (2, 64), 0, 4)
    back = np.concatenate([b[::-1], np.zeros(64, b.dtype) - 1])

    def step(state: Any, k: Any) -> Any:
        before, last = state
        at = 63 - k + np.arange(64)
        inside = (at >= 0) & (at < 64)
        same = (a == back[np.clip(at, 0, 127)]) & inside
        corner = np.concatenate([np.zeros(1), before[:-1]])
        up = np.concatenate([np.zeros(1), last[:-1]])
        score = np.maximum(corner + np.where(same, 2.0, -1.0), np.maximum(up, last) - 1.0)
        score = np.where(inside, np.maximum(score, 0.0), 0.0)
        return (last, score), score.max()

    return lax.scan(step, (np.zeros(64), np.zeros(64)), np.arange(127))[1]


def edit_distance(key: Any) -> Any:
    """Levenshtein's distance of two words of 32 letters, number by number."""
    a, b = rand.randint(key, (2, 32), 0, 4)

    def cell(i: Any, j: Any, table: Any) -> Any:
        found = np.minimum(np.minimum(table[i, j + 1], table[i + 1, j]) + 1,
                           table[i, j] + (a[i] != b[j]))
        return table.at[i + 1, j + 1].set(found)

    table = np.zeros((33, 33), "int32").at[0].set(np.arange(33)).at[:, 0].set(np.arange(33))
    return lax.fori_loop(0, 32, lambda i, t: lax.fori_loop(
        0, 32, lambda j, u: cell(i, j, u), t), table)[32, 32]


def viterbi(key: Any) -> Any:
    """The likeliest of 8 states in each of 100 steps, found forth and back."""
    a, b = rand.split(key)
    moves = J.nn.log_softmax(rand.normal(a, (8, 8)))
    seen = rand.normal(b, (100, 8))

    def forth(score: Any, x: Any) -> Any:
        all_ways = score[:, None] + moves
        return all_ways.max(0) + x, np.argmax(all_ways, 0)

    score, ways = lax.scan(forth, np.zeros(8), seen)

    def back(state: Any, way: Any) -> Any:
        return way[state], state
    return lax.scan(back, np.argmax(score), ways, reverse=True)[1]


def hidden_markov_gradient(key: Any) -> Any:
    """The derivative of the likelihood of 100 steps of 8 states by what moves them."""
    a, b = rand.split(key)
    seen = rand.normal(b, (100, 8))

    def likelihood(weights: Any) -> Any:
        moves = J.nn.log_softmax(weights)

        def step(score: Any, x: Any) -> Any:
            return J.nn.logsumexp(score[:, None] + moves, axis=0) + x, None
        return J.nn.logsumexp(lax.scan(step, np.zeros(8), seen)[0])

    return J.grad(likelihood)(rand.normal(a, (8, 8)))


def knapsack(key: Any) -> Any:
    """30 things in a sack of 200, and which of them are in it."""
    a, b = rand.split(key)
    weight, worth = rand.randint(a, (30,), 5, 40), rand.uniform(b, (30,))

    def forth(best: Any, thing: Any) -> Any:
        heavy, paid = thing
        room = np.arange(201) - heavy
        taken = np.where(room >= 0, best[np.clip(room, 0, 200)] + paid, -np.inf)
        return np.maximum(best, taken), taken > best

    best, taken = lax.scan(forth, np.zeros(201), (weight, worth))

    def back(room: Any, thing: Any) -> Any:
        heavy, row = thing
        return room - np.where(row[room], heavy, 0), row[room]
    return best[200], lax.scan(back, 200, (weight, taken), reverse=True)[1]


def value_iteration(key: Any) -> Any:
    """50 states of four actions, until no value moves by more than 1e-3."""
    a, b = rand.split(key)
    paid = rand.uniform(a, (50, 4))
    chance = J.nn.softmax(3 * rand.normal(b, (50, 4, 50)))

    def step(state: Any) -> Any:
        value, _, count = state
        new = (paid + 0.9 * chance @ value).max(1)
        return new, np.abs(new - value).max(), count + 1

    return lax.while_loop(lambda s: (s[1] > 1e-3) & (s[2] < 500), step, (np.zeros(50), np.inf, 0))


def savings(key: Any) -> Any:
    """60 sweeps of Bellman's operator over 60 levels of savings: how much to eat, interpolated."""
    level = np.linspace(0.1, 5.0, 60)
    income = 1 + 0.1 * rand.normal(key, (5,))
    share = np.linspace(0.05, 0.95, 15)

    def sweep(_: Any, value: Any) -> Any:
        rest = level[:, None] * (1 - share)
        after = rest[..., None] * 1.02 + income
        later = np.interp(after.reshape(-1), level, value).reshape(after.shape).mean(-1)
        return (np.log(level[:, None] * share) + 0.95 * later).max(1)

    return lax.fori_loop(0, 60, sweep, np.zeros(60))


# ---- graphs and cells
def breadth_first(key: Any) -> Any:
    """How far 40 nodes are from the first over 80 edges, the queue in an array."""
    near = rand.randint(key, (40, 2), 0, 40)

    def step(state: Any) -> Any:
        queue, head, tail, far = state
        node = queue[head]

        def visit(k: Any, kept: Any) -> Any:
            queue, tail, far = kept
            other = near[node, k]
            new = far[other] < 0
            far = far.at[other].set(np.where(new, far[node] + 1, far[other]))
            queue = queue.at[tail].set(np.where(new, other, queue[tail]))
            return queue, tail + new, far
        queue, tail, far = lax.fori_loop(0, 2, visit, (queue, tail, far))
        return queue, head + 1, tail, far

    start = (np.zeros(41, "int32"), 0, 1, np.full(40, -1).at[0].set(0))
    return lax.while_loop(lambda s: s[1] < s[2], step, start)[3]


def shortest_ways(key: Any) -> Any:
    """Bellman and Ford's ways over 40 nodes and 160 edges, until none gets shorter."""
    a, b = rand.split(key)
    tail, head = rand.randint(a, (2, 160), 0, 40)
    length = rand.uniform(b, (160,))

    def step(state: Any) -> Any:
        far, _, count = state
        new = far.at[head].min(far[tail] + length)
        return new, np.any(new < far), count + 1

    start = (np.full(40, np.inf).at[0].set(0.0), True, 0)
    return lax.while_loop(lambda s: s[1] & (s[2] < 40), step, start)[0]


def page_rank(key: Any) -> Any:
    """50 rounds over 100 nodes and 400 edges."""
    tail, head = rand.randint(key, (2, 400), 0, 100)
    out = np.maximum(np.zeros(100).at[tail].add(1.0), 1.0)

    def step(_: Any, rank: Any) -> Any:
        return 0.15 / 100 + 0.85 * np.zeros(100).at[head].add((rank / out)[tail])
    return lax.fori_loop(0, 50, step, np.full(100, 0.01))


def life(key: Any) -> Any:
    """100 steps of Conway's game on 24 x 24 cells."""
    def step(cells: Any, _: Any) -> Any:
        near = sum(np.roll(cells, (y, x), (0, 1)) for y in (-1, 0, 1) for x in (-1, 0, 1)) - cells
        cells = ((near == 3) | (cells == 1) & (near == 2)).astype("int32")
        return cells, cells.sum()
    return lax.scan(step, rand.bernoulli(key, 0.4, (24, 24)).astype("int32"), None, 100)


def rule_of_cells(key: Any) -> Any:
    """200 steps of 128 cells of which each follows a rule in a table (Wolfram's 110)."""
    rule = np.array([0, 1, 1, 1, 0, 1, 1, 0])

    def step(cells: Any, _: Any) -> Any:
        cells = rule[4 * np.roll(cells, 1) + 2 * cells + np.roll(cells, -1)]
        return cells, cells.sum()
    return lax.scan(step, rand.bernoulli(key, 0.5, (128,)).astype("int32"), None, 200)


def walkers(key: Any) -> Any:
    """200 steps of 20 ants on a board of 16 x 16 that they mark, each after the other."""
    moves = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])

    def ant(board: Any, one: Any) -> Any:
        at, way = one
        turn = np.where(board[at[0], at[1]], 3, 1)
        way = (way + turn) % 4
        board = board.at[at[0], at[1]].set(~board[at[0], at[1]])
        return board, ((at + moves[way]) % 16, way)

    def step(state: Any, _: Any) -> Any:
        board, ants = state
        board, ants = lax.scan(ant, board, ants)
        return (board, ants), board.sum()

    start = (np.zeros((16, 16), bool), (rand.randint(key, (20, 2), 0, 16),
                                        rand.randint(key, (20,), 0, 4)))
    return lax.scan(step, start, None, 200)[1]


PROGRAMS = (extended_kalman, extended_kalman_gradient, unscented_kalman, particle_filter,
            pendulums, pendulums_gradient, flock, fluid, cloth, cloth_gradient, contacts,
            adaptive_steps, implicit_steps, checkpoints, local_alignment, edit_distance, viterbi,
            hidden_markov_gradient, knapsack, value_iteration, savings, breadth_first,
            shortest_ways, page_rank, life, rule_of_cells, walkers)
