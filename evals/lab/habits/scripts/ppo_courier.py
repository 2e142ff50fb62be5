"""PPO on a little courier grid world; one iteration = one rollout and four passes over it."""

import argparse
import gc
import os
import random
import sys
import time
from collections import deque

import clock
import torch
from torch import nn
from torch.distributions import Categorical
from torch.profiler import ProfilerActivity, profile, record_function

RUN_DIR = os.environ.get("RUN_DIR", ".")


class Courier:
    """Carry parcels over a 12 by 12 grid; plain Python."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.reset()

    def reset(self):
        self.pos, self.goal, self.t = [6, 6], [self.rng.randrange(12), self.rng.randrange(12)], 0
        return self.obs()

    def obs(self):
        plane = [0.0] * 288
        plane[self.pos[0] * 12 + self.pos[1]] = 1.0
        plane[144 + self.goal[0] * 12 + self.goal[1]] = 1.0
        return plane

    def step(self, action):
        dx, dy = ((0, 1), (0, -1), (1, 0), (-1, 0))[action]
        self.pos = [min(11, max(0, self.pos[0] + dx)), min(11, max(0, self.pos[1] + dy))]
        self.t += 1
        done = self.pos == self.goal or self.t > 60
        reward = 1.0 if self.pos == self.goal else -0.01
        return (self.reset() if done else self.obs()), reward, done


class Policy(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(288, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi, self.v = nn.Linear(hidden, 4), nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.body(x)
        return self.pi(h), self.v(h).squeeze(-1)


def rollout(envs, obs, policy, horizon, vectorized, memory):
    data = []
    for _ in range(horizon):
        with torch.no_grad():
            if vectorized:
                x = torch.tensor(obs)
                logits, value = policy(x)
                dist = Categorical(logits=logits)
                action = dist.sample()
                logp = dist.log_prob(action)
            else:
                rows = []
                for o in obs:
                    logits, v = policy(torch.tensor(o)[None])
                    d = Categorical(logits=logits)
                    act = d.sample()
                    rows.append((act, d.log_prob(act), v))
                x = torch.tensor(obs)
                action, logp, value = (torch.cat(c) for c in zip(*rows, strict=True))
        results = [env.step(k) for env, k in zip(envs, action.tolist(), strict=True)]
        reward = torch.tensor([r for _, r, _ in results])
        done = torch.tensor([float(d) for *_, d in results])
        data.append((x, action, logp, value, reward, done))
        if memory is not None:
            memory.extend(
                {"pos": list(e.pos), "goal": list(e.goal), "r": [r]} for e, (_, r, _) in zip(envs, results, strict=True)
            )
        obs = [o for o, *_ in results]
    return obs, [torch.stack(c) for c in zip(*data, strict=True)]


def advantages(value, reward, done, gamma=0.99, lam=0.95):
    out, last = torch.zeros_like(reward), torch.zeros(reward.shape[1])
    for t in reversed(range(len(reward))):
        nxt = value[t + 1] if t + 1 < len(reward) else torch.zeros_like(last)
        delta = reward[t] + gamma * nxt * (1 - done[t]) - value[t]
        last = delta + gamma * lam * (1 - done[t]) * last
        out[t] = last
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iterations", type=int, default=60)
    ap.add_argument("--envs", type=int, default=16)
    ap.add_argument("--horizon", type=int, default=24)
    ap.add_argument("--hidden", type=int, default=256)
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--vectorized", type=int, default=1)
    ap.add_argument("--history", type=int, default=0, help="transitions that are kept for later inspection")
    ap.add_argument(
        "--collect", type=int, default=0, help="call gc.collect() every so many iterations to keep memory flat"
    )
    ap.add_argument("--profile-at", type=int, default=50)
    ap.add_argument("--profile-n", type=int, default=3)
    ap.add_argument("--stack", action="store_true")
    ap.add_argument("--shapes", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    envs = [Courier(i) for i in range(args.envs)]
    obs = [e.reset() for e in envs]
    policy = Policy(args.hidden)
    opt = torch.optim.Adam(policy.parameters(), lr=3e-4)
    memory = deque(maxlen=args.history) if args.history else None
    if memory is not None:
        memory.extend({"pos": [0, k % 12], "goal": [k % 7, 3], "r": [0.0]} for k in range(args.history))
    prof = profile(activities=[ProfilerActivity.CPU], with_stack=args.stack, record_shapes=args.shapes)
    for it in range(args.iterations):
        if it == args.profile_at:
            prof.start()
        start = time.time()
        with record_function("rollout"):
            obs, (x, action, logp, value, reward, done) = rollout(
                envs, obs, policy, args.horizon, bool(args.vectorized), memory
            )
        t_roll = time.time() - start
        adv = advantages(value, reward, done)
        ret = (adv + value).flatten()
        x, action, logp = x.flatten(0, 1), action.flatten(), logp.flatten()
        adv = ((adv - adv.mean()) / (adv.std() + 1e-8)).flatten()
        with record_function("update"):
            for _ in range(args.epochs):
                for idx in torch.randperm(len(x)).split(96):
                    logits, v = policy(x[idx])
                    d = Categorical(logits=logits)
                    ratio = (d.log_prob(action[idx]) - logp[idx]).exp()
                    clipped = torch.min(ratio * adv[idx], ratio.clamp(0.8, 1.2) * adv[idx])
                    loss = -clipped.mean() + 0.5 * (v - ret[idx]).pow(2).mean() - 0.01 * d.entropy().mean()
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
        if args.collect and it % args.collect == 0:
            gc.collect()
        dt = time.time() - start
        print(
            f"| iter {it:4d} | fps {args.envs * args.horizon / dt:8.0f} | rollout {t_roll:.3f}s | total {dt:.3f}s "
            f"| ep_rew {reward.sum().item():7.2f} | loss {loss.item():8.4f} |",
            flush=True,
        )
        clock.tick()
        if it == args.profile_at + args.profile_n - 1:
            prof.stop()
            prof.export_chrome_trace(f"{RUN_DIR}/courier.json.gz")


if __name__ == "__main__":
    sys.exit(main())
