"""Small loops that act and draw: environments, samplers, evolution and searches.

Each program takes a key and is written once over the package that SMALL_LOOPS names; run by
../small_loops.py.
"""
from __future__ import annotations

import importlib
import os
from typing import Any

NAME = os.environ.get("SMALL_LOOPS", "calque")
J: Any = importlib.import_module(NAME)
np: Any = importlib.import_module(f"{NAME}.numpy")
lax, rand = J.lax, J.random


# ---- environments
def grid_world(key: Any) -> Any:
    """100 random steps over a board of 10 x 10 whose cells pay once."""
    moves = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])

    def step(state: Any, _: Any) -> Any:
        key, board, at = state
        key, sub = rand.split(key)
        at = np.clip(at + moves[rand.randint(sub, (), 0, 4)], 0, 9)
        paid = board[at[0], at[1]]
        return (key, board.at[at[0], at[1]].set(0.0), at), paid

    return lax.scan(step, (key, np.ones((10, 10)), np.array([5, 5])), None, 100)[1]


def _cart(x: Any, force: Any) -> Any:
    """A step of a cart with a pole on it (Barto, Sutton and Anderson 1983)."""
    place, speed, angle, turn = x
    cos, sin = np.cos(angle), np.sin(angle)
    pull = (force + 0.05 * turn ** 2 * sin) / 1.1
    bend = (9.8 * sin - cos * pull) / (0.5 * (4 / 3 - 0.1 * cos ** 2 / 1.1))
    return x + 0.02 * np.array([speed, pull - 0.05 * bend * cos / 1.1, turn, bend])


def cart_pole(key: Any) -> Any:
    """200 steps of random pushes, begun anew where the pole falls."""
    def step(state: Any, _: Any) -> Any:
        key, x = state
        key, sub = rand.split(key)
        x = _cart(x, np.where(rand.bernoulli(sub), 10.0, -10.0))
        done = (np.abs(x[0]) > 2.4) | (np.abs(x[2]) > 0.2)
        return (key, np.where(done, 0.0, x)), done

    return lax.scan(step, (key, np.zeros(4)), None, 200)[1]


def cart_pole_gradient(key: Any) -> Any:
    """How far the pole leans over 50 steps, by the weights of a linear policy."""
    def lean(weights: Any) -> Any:
        def step(x: Any, noise: Any) -> Any:
            x = _cart(x, np.tanh(weights @ x) + noise)
            return x, x[2] ** 2
        return lax.scan(step, np.zeros(4) + 0.01, 0.1 * rand.normal(key, (50,)))[1].mean()

    return J.grad(lean)(np.array([0.1, 0.2, 1.0, 0.5]))


def policy_gradient(key: Any) -> Any:
    """The score of a softmax policy over 100 steps of a chain of 8 states (REINFORCE)."""
    def surrogate(table: Any) -> Any:
        def step(state: Any, sub: Any) -> Any:
            action = rand.categorical(sub, table[state])
            after = np.clip(state + 2 * action - 1, 0, 7)
            score = J.nn.log_softmax(table[state])[action]
            return after, (score, (after == 7).astype("float32"))
        scores, paid = lax.scan(step, 3, rand.split(key, 100))[1]
        return (scores * (np.cumsum(paid[::-1])[::-1])).mean()

    return J.grad(surrogate)(np.zeros((8, 2)))


def mountain_car(key: Any) -> Any:
    """Up to 200 noisy steps until the car is on the hill."""
    def step(state: Any) -> Any:
        key, place, speed, count = state
        key, sub = rand.split(key)
        push = np.sign(speed) + 0.3 * rand.normal(sub)
        speed = np.clip(speed + 0.0015 * push - 0.0025 * np.cos(3 * place), -0.07, 0.07)
        place = np.clip(place + speed, -1.2, 0.6)
        return key, place, np.where(place <= -1.2, 0.0, speed), count + 1

    start = (key, -0.5 + 0.1 * rand.uniform(key), 0.01, 0)
    return lax.while_loop(lambda s: (s[1] < 0.5) & (s[3] < 200), step, start)[1:]


def bandit(key: Any) -> Any:
    """500 pulls of ten arms, greedy but for one in ten."""
    arms = rand.normal(key, (10,))

    def step(state: Any, sub: Any) -> Any:
        value, count = state
        a, b, c = rand.split(sub, 3)
        arm = np.where(rand.uniform(a) < 0.1, rand.randint(b, (), 0, 10), np.argmax(value))
        paid = arms[arm] + rand.normal(c)
        count = count.at[arm].add(1)
        return (value.at[arm].add((paid - value[arm]) / count[arm]), count), paid

    (_, count), paid = lax.scan(step, (np.zeros(10), np.zeros(10)), rand.split(key, 500))
    return count, paid.mean()


LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


def tic_tac_toe(key: Any) -> Any:
    """50 games of two players who draw among the free cells."""
    lines = np.array(LINES)

    def game(key: Any) -> Any:
        def move(state: Any) -> Any:
            key, board, player, _ = state
            key, sub = rand.split(key)
            cell = np.argmax(np.where(board == 0, rand.uniform(sub, (9,)), -1.0))
            board = board.at[cell].set(player)
            won = np.any(np.all(board[lines] == player, axis=1))
            return key, board, -player, np.where(won, player, 0)
        return lax.while_loop(lambda s: (s[3] == 0) & np.any(s[1] == 0), move,
                              (key, np.zeros(9, "int32"), 1, 0))[3]

    return lax.map(game, rand.split(key, 50))


def breakout(key: Any) -> Any:
    """300 steps of a ball, a paddle that draws its moves and three rows of bricks."""
    def step(state: Any, sub: Any) -> Any:
        bricks, y, x, dy, dx, paddle = state
        paddle = np.clip(paddle + rand.randint(sub, (), -1, 2), 0, 9)
        dx = np.where((x + dx < 0) | (x + dx > 9), -dx, dx)
        dy = np.where(y + dy < 0, -dy, dy)
        y1, x1 = y + dy, x + dx
        row, column = np.clip(y1, 0, 9), np.clip(x1, 0, 9)
        hit = bricks[row, column] > 0
        bricks = bricks.at[row, column].set(0)
        dy = np.where(hit, -dy, dy)
        y1 = np.where(hit, y, y1)
        lost = y1 >= 9
        saved = lost & (np.abs(x1 - paddle) <= 2)
        dy = np.where(lost, -1, dy)
        y1 = np.where(lost, np.where(saved, 8, 5), y1)
        bricks = np.where(np.any(bricks > 0), bricks, start)
        return (bricks, y1, x1, dy, dx, paddle), hit.astype("int32") - (lost & ~saved)

    start = np.zeros((10, 10), "int32").at[1:4].set(1)
    state = (start, 5, rand.randint(key, (), 0, 10), 1, 1, 5)
    return lax.scan(step, state, rand.split(key, 300))[1]


# ---- samplers
def _density(q: Any) -> Any:
    return -(q[0] ** 2 / 2 + (q[1] - q[0] ** 2) ** 2)


def hamiltonian(key: Any) -> Any:
    """400 transitions of five leapfrog steps."""
    slope = J.grad(_density)

    def leap(_: Any, state: Any) -> Any:
        q, p = state
        p = p + 0.05 * slope(q)
        q = q + 0.1 * p
        return q, p + 0.05 * slope(q)

    def step(q: Any, sub: Any) -> Any:
        a, b = rand.split(sub)
        p = rand.normal(a, (2,))
        new, end = lax.fori_loop(0, 5, leap, (q, p))
        gain = _density(new) - end @ end / 2 - _density(q) + p @ p / 2
        q = np.where(np.log(rand.uniform(b)) < gain, new, q)
        return q, q

    return lax.scan(step, np.zeros(2), rand.split(key, 400))[1]


def tree_doubling(key: Any) -> Any:
    """100 transitions whose paths double until they turn back, at most 2^5 steps (after Hoffman and
    Gelman 2014)."""
    slope = J.grad(_density)

    def leap(_: Any, state: Any) -> Any:
        q, p, way, pick, best, total, key = state
        p = p + 0.1 * way * slope(q)
        q = q + 0.2 * way * p
        p = p + 0.1 * way * slope(q)
        key, sub = rand.split(key)
        weight = np.exp(_density(q) - p @ p / 2 - best)
        total = total + weight
        pick = np.where(rand.uniform(sub) * total < weight, q, pick)
        return q, p, way, pick, best, total, key

    def double(state: Any) -> Any:
        ends, pick, best, total, key, depth, _ = state
        key, a, b = rand.split(key, 3)
        side = rand.bernoulli(a).astype("int32")
        q, p = ends[side]
        way = 2.0 * side - 1
        q, p, _, pick, _, total, _ = lax.fori_loop(
            0, 2 ** depth, leap, (q, p, way, pick, best, total, b))
        ends = ends.at[side].set(np.stack([q, p]))
        span = ends[1, 0] - ends[0, 0]
        turned = (span @ ends[0, 1] < 0) | (span @ ends[1, 1] < 0)
        return ends, pick, best, total, key, depth + 1, turned

    def step(q: Any, sub: Any) -> Any:
        a, b = rand.split(sub)
        p = rand.normal(a, (2,))
        start = np.stack([q, p])
        state = (np.stack([start, start]), q, _density(q) - p @ p / 2, 1.0, b, 0, False)
        made = lax.while_loop(lambda s: ~s[6] & (s[5] < 5), double, state)
        return made[1], (made[1], made[5])

    return lax.scan(step, np.zeros(2), rand.split(key, 100))[1]


def slices(key: Any) -> Any:
    """200 transitions that step out and shrink (Neal 2003)."""
    def log(x: Any) -> Any:
        return np.logaddexp(-(x - 2) ** 2, -(x + 2) ** 2 / 2)

    def step(x: Any, sub: Any) -> Any:
        a, b, c = rand.split(sub, 3)
        level = log(x) + np.log(rand.uniform(a, minval=1e-6))
        low = x - rand.uniform(b)
        high = low + 1
        low = lax.while_loop(lambda v: log(v) > level, lambda v: v - 1, low)
        high = lax.while_loop(lambda v: log(v) > level, lambda v: v + 1, high)

        def shrink(state: Any) -> Any:
            key, low, high, _, _ = state
            key, sub = rand.split(key)
            y = low + (high - low) * rand.uniform(sub)
            return key, np.where(y < x, y, low), np.where(y < x, high, y), y, log(y) > level
        x = lax.while_loop(lambda s: ~s[4], shrink, (c, low, high, x, False))[3]
        return x, x

    return lax.scan(step, 0.0, rand.split(key, 200))[1]


def gibbs(key: Any) -> Any:
    """300 sweeps over the means of 8 groups, their mean and their spread."""
    seen = rand.normal(key, (8,)) * 2

    def step(state: Any, sub: Any) -> Any:
        middle, spread = state
        a, b, c = rand.split(sub, 3)
        share = spread / (1 + spread)
        means = share * seen + (1 - share) * middle + np.sqrt(share) * rand.normal(a, (8,))
        middle = means.mean() + np.sqrt(spread / 8) * rand.normal(b)
        spread = ((means - middle) ** 2).sum() / (2 * rand.gamma(c, 4.0))
        return (middle, spread), means

    return lax.scan(step, (0.0, 1.0), rand.split(key, 300))[1].mean(0)


def ising(key: Any) -> Any:
    """50 sweeps of a 16 x 16 lattice, the two colours of a chess board in turn."""
    colour = (np.arange(16)[:, None] + np.arange(16)) % 2

    def half(spins: Any, turn: Any) -> Any:
        which, sub = turn
        field = sum(np.roll(spins, by, axis) for by in (-1, 1) for axis in (0, 1))
        up = rand.uniform(sub, (16, 16)) < J.nn.sigmoid(0.8 * field)
        return np.where(colour == which, np.where(up, 1.0, -1.0), spins), spins.mean()

    start = rand.rademacher(key, (16, 16)).astype("float32")
    return lax.scan(half, start, (np.arange(100) % 2, rand.split(key, 100)))


def monte_carlo_resampled(key: Any) -> Any:
    """Sequential Monte Carlo: 50 steps of 100 particles, resampled by choice."""
    def step(x: Any, turn: Any) -> Any:
        time, sub = turn
        a, b = rand.split(sub)
        x = 0.9 * x + rand.normal(a, (100,))
        weight = J.nn.softmax(-0.5 * (x - np.sin(0.1 * time)) ** 2)
        return x[rand.choice(b, 100, (100,), p=weight)], (weight * x).sum()

    return lax.scan(step, np.zeros(100), (np.arange(50.0), rand.split(key, 50)))[1]


def tempering(key: Any) -> Any:
    """200 steps of 8 chains at temperatures of their own, neighbours swapped in turn."""
    cold = 0.7 ** np.arange(8.0)

    def log(x: Any) -> Any:
        return -((x ** 2 - 4) ** 2) / 2

    def step(x: Any, turn: Any) -> Any:
        count, sub = turn
        a, b, c = rand.split(sub, 3)
        new = x + rand.normal(a, (8,)) / np.sqrt(cold)
        x = np.where(np.log(rand.uniform(b, (8,))) < cold * (log(new) - log(x)), new, x)
        other = np.clip(np.arange(8) + np.where(np.arange(8) % 2 == count % 2, 1, -1), 0, 7)
        gain = (cold - cold[other]) * (log(x[other]) - log(x))
        chance = np.log(rand.uniform(c, (8,)))[np.minimum(np.arange(8), other)]
        x = np.where(chance < gain, x[other], x)
        return x, x[0]

    return lax.scan(step, np.ones(8), (np.arange(200), rand.split(key, 200)))[1]


# ---- evolution
def _bowl(x: Any) -> Any:
    return (x ** 2).sum(-1) + 3 * (1 - np.cos(3 * x)).sum(-1)


def evolution_strategy(key: Any) -> Any:
    """100 generations of 32 mirrored samples in five dimensions."""
    def step(middle: Any, sub: Any) -> Any:
        noise = rand.normal(sub, (16, 5))
        noise = np.concatenate([noise, -noise])
        cost = _bowl(middle + 0.3 * noise)
        rank = np.argsort(np.argsort(cost)) / 31 - 0.5
        return middle - 0.3 * (rank @ noise) / 10, cost.min()

    return lax.scan(step, np.ones(5), rand.split(key, 100))[1]


def differential_evolution(key: Any) -> Any:
    """100 generations of 32 candidates in five dimensions."""
    def step(state: Any, sub: Any) -> Any:
        x, cost = state
        a, b = rand.split(sub)
        at = rand.randint(a, (3, 32), 0, 32)
        new = np.where(rand.uniform(b, x.shape) < 0.9, x[at[0]] + 0.8 * (x[at[1]] - x[at[2]]), x)
        found = _bowl(new)
        better = found < cost
        return (np.where(better[:, None], new, x), np.where(better, found, cost)), cost.min()

    x = rand.normal(key, (32, 5))
    return lax.scan(step, (x, _bowl(x)), rand.split(key, 100))[1]


def covariance_adaptation(key: Any) -> Any:
    """60 generations of a small CMA-ES, 12 candidates in four dimensions."""
    weights = np.log(6.5) - np.log(np.arange(1.0, 7))
    weights = weights / weights.sum()

    def step(state: Any, sub: Any) -> Any:
        middle, spread, size = state
        factor = np.linalg.cholesky(spread + 1e-6 * np.eye(4))
        moves = rand.normal(sub, (12, 4)) @ factor.T
        cost = _bowl(middle + size * moves)
        best = moves[np.argsort(cost)[:6]]
        mean = weights @ best
        spread = 0.8 * spread + 0.2 * (weights[:, None] * best).T @ best
        length = np.sqrt(mean @ np.linalg.solve(spread, mean))
        return (middle + size * mean, spread, size * np.exp(0.2 * (length - 0.8))), cost.min()

    return lax.scan(step, (np.ones(4) * 2, np.eye(4), 0.5), rand.split(key, 60))[1]


def particle_swarm(key: Any) -> Any:
    """100 steps of 32 particles in five dimensions."""
    def step(state: Any, sub: Any) -> Any:
        x, speed, best, cost = state
        a, b = rand.split(sub)
        leader = best[np.argmin(cost)]
        speed = (0.7 * speed + 1.4 * rand.uniform(a, x.shape) * (best - x)
                 + 1.4 * rand.uniform(b, x.shape) * (leader - x))
        x = x + speed
        found = _bowl(x)
        better = found < cost
        return (x, speed, np.where(better[:, None], x, best),
                np.where(better, found, cost)), cost.min()

    x = rand.normal(key, (32, 5))
    return lax.scan(step, (x, np.zeros_like(x), x, _bowl(x)), rand.split(key, 100))[1]


def annealing(key: Any) -> Any:
    """300 exchanges of two of 16 cities on a round trip."""
    at = rand.uniform(key, (16, 2))

    def length(tour: Any) -> Any:
        way = at[tour] - at[np.roll(tour, 1)]
        return np.sqrt((way ** 2).sum(1)).sum()

    def step(state: Any, turn: Any) -> Any:
        tour, cost = state
        heat, sub = turn
        a, b = rand.split(sub)
        i, j = rand.randint(a, (2,), 0, 16)
        new = tour.at[i].set(tour[j]).at[j].set(tour[i])
        found = length(new)
        take = np.log(rand.uniform(b)) * heat < cost - found
        return (np.where(take, new, tour), np.where(take, found, cost)), cost

    tour = rand.permutation(key, 16)
    heat = 0.2 * 0.98 ** np.arange(300.0)
    return lax.scan(step, (tour, length(tour)), (heat, rand.split(key, 300)))[1]


# ---- searches
def tree_search(key: Any) -> Any:
    """Monte Carlo tree search in arrays: 32 simulations over three actions, paths of at most 6."""
    def simulate(state: Any, turn: Any) -> Any:
        children, visits, value = state
        count, sub = turn

        def go_down(walk: Any) -> Any:
            node, _, depth, path = walk
            below = children[node]
            seen = visits[below]
            score = np.where(below > 0, value[below] / np.maximum(seen, 1) + np.sqrt(
                2 * np.log(visits[node] + 1) / np.maximum(seen, 1)), 1e9)
            action = np.argmax(score)
            path = path.at[depth + 1].set(below[action])
            return below[action], node * 3 + action, depth + 1, path

        start = (0, 0, 0, np.zeros(8, "int32"))
        node, edge, depth, path = lax.while_loop(
            lambda w: ((w[0] > 0) | (w[2] == 0)) & (w[2] < 6), go_down, start)
        new = count + 1
        children = children.at[edge // 3, edge % 3].set(np.where(node > 0, node, new))
        path = path.at[depth].set(np.where(node > 0, node, new))
        paid = rand.uniform(sub) * np.where(path[1] % 2 == 1, 1.0, 0.5)

        def back(i: Any, kept: Any) -> Any:
            visits, value = kept
            return visits.at[path[i]].add(1.0), value.at[path[i]].add(paid)
        visits, value = lax.fori_loop(0, depth + 1, back, (visits, value))
        return (children, visits, value), depth

    start = (np.zeros((40, 3), "int32"), np.zeros(40), np.zeros(40))
    (_, visits, value), depth = lax.scan(
        simulate, start, (np.arange(32, dtype="int32"), rand.split(key, 32)))
    return visits, value, depth


def a_star(key: Any) -> Any:
    """A* over a grid of 12 x 12 with walls, the open cells in an array."""
    wall = (rand.uniform(key, (12, 12)) < 0.25).at[0, 0].set(False).at[11, 11].set(False)
    moves = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])
    rest = 22.0 - np.arange(12)[:, None] - np.arange(12)

    def step(state: Any) -> Any:
        cost, is_open, count, _ = state
        at = np.argmin(np.where(is_open, cost + rest, np.inf))
        y, x = at // 12, at % 12
        is_open = is_open.at[y, x].set(False)
        near = np.array([y, x]) + moves
        inside = np.all((near >= 0) & (near < 12), axis=1)
        row, column = np.clip(near, 0, 11).T
        found = cost[y, x] + 1
        better = inside & ~wall[row, column] & (found < cost[row, column])
        cost = cost.at[row, column].min(np.where(better, found, np.inf))
        is_open = is_open.at[row, column].max(better)
        return cost, is_open, count + 1, (y == 11) & (x == 11)

    start = (np.full((12, 12), np.inf).at[0, 0].set(0.0),
             np.zeros((12, 12), bool).at[0, 0].set(True), 0, False)
    return lax.while_loop(lambda s: np.any(s[1]) & ~s[3], step, start)[0][11, 11]


def beams(key: Any) -> Any:
    """Beam search: 50 steps of 5 beams over 20 words (scores whose sums are exact: ways that have
    the same steps tie)."""
    table = np.round(64 * J.nn.log_softmax(rand.normal(key, (20, 20)))) / 64

    def step(state: Any, _: Any) -> Any:
        score, word = state
        score, at = lax.top_k((score[:, None] + table[word]).reshape(-1), 5)
        return (score, at % 20), (at // 20, at % 20)

    return lax.scan(step, (np.zeros(5), np.arange(5)), None, 50)


def line_search(key: Any) -> Any:
    """50 steps uphill, each halved until it is long enough (Armijo)."""
    slope = J.grad(_density)

    def step(_: Any, x: Any) -> Any:
        way = slope(x)
        size = lax.while_loop(
            lambda t: (_density(x + t * way) < _density(x) + 0.1 * t * (way @ way)) & (t > 1e-4),
            lambda t: t * 0.5, 1.0)
        return x + size * way

    return lax.fori_loop(0, 50, step, np.array([2.0, 1.0]) + 0.1 * rand.normal(key, (2,)))


def words(key: Any) -> Any:
    """200 words drawn from a recurrent network of 32 cells."""
    a, b, c = rand.split(key, 3)
    inner, out, seen = (0.2 * rand.normal(a, (32, 32)), rand.normal(b, (32, 20)),
                        rand.normal(c, (20, 32)))

    def step(state: Any, sub: Any) -> Any:
        cells, word = state
        cells = np.tanh(cells @ inner + seen[word])
        word = rand.categorical(sub, cells @ out)
        return (cells, word), word

    return lax.scan(step, (np.zeros(32), 0), rand.split(key, 200))[1]


PROGRAMS = (grid_world, cart_pole, cart_pole_gradient, policy_gradient, mountain_car, bandit,
            tic_tac_toe, breakout, hamiltonian, tree_doubling, slices, gibbs, ising,
            monte_carlo_resampled, tempering, evolution_strategy, differential_evolution,
            covariance_adaptation, particle_swarm, annealing, tree_search, a_star, beams,
            line_search, words)
