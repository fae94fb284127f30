# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Regions beside other memory of PyTorch, on one or two GPUs: while tags are paused, kernels that use ordinary memory have right
values. Each case is a process of its own, because an illegal address ends CUDA in it. Exit code 0 if all of them are right.

torch_owners.py [case...]
"""

import os
import subprocess
import sys
import time

HEAD = """
import contextlib, gc, sys, time, torch, amem
MIB = 1 << 20
def of(size, device="cuda:0"): return torch.empty(size, dtype=torch.uint8, device=device)
def free(device=0): torch.cuda.synchronize(); return torch.cuda.mem_get_info(device)[0] // MIB
def expect(condition, what):
    torch.cuda.synchronize()
    if not condition: sys.exit(f"wrong: {what}")
def product(n=512): return torch.arange(n * n, device="cuda", dtype=torch.float32).view(n, n) % 7
"""
CASES = {
    "matmul": """
a = product(); want = None
streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
with amem.region("weights"):
    results = []
    for stream in streams:
        with torch.cuda.stream(stream): results.append(a @ a)
torch.cuda.synchronize(); want = results[0].clone()
report = amem.pause("weights")
for stream in streams:
    with torch.cuda.stream(stream): expect(torch.equal(a @ a, want), "a product while the tag is paused")
amem.resume("weights")
expect(all(torch.equal(each, want) for each in results), "products of the region")
print(f"{report.resident_bytes // MIB} MiB of workspaces stay")
""",
    "linear": """
x = torch.randn(64, 4096, device="cuda", dtype=torch.bfloat16); layer = torch.nn.Linear(4096, 4096, device="cuda", dtype=torch.bfloat16)
def out(): return torch.nn.functional.gelu(layer(x))
with torch.no_grad():
    with amem.region("weights"): inside = out()
    want = out().clone(); torch.cuda.synchronize(); amem.pause("weights"); expect(torch.equal(out(), want), "cuBLASLt while paused")
    amem.resume("weights"); expect(torch.equal(inside, want), "of the region")
""",
    "graphs": """
a = product(); tagged, plain = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
side = torch.cuda.Stream()
with torch.cuda.stream(side): warm = a @ a
torch.cuda.synchronize()
with amem.cuda_graph(tagged, tag="cuda_graph"): y = a @ a; z = (y + 1).clone()
with torch.cuda.graph(plain): w = a @ a
tagged.replay(); plain.replay(); torch.cuda.synchronize(); want = w.clone(); before = free()
amem.pause("cuda_graph"); freed = free() - before
w.zero_(); plain.replay(); expect(torch.equal(w, want), "another graph while the tag is paused")
expect(torch.equal(a @ a, want), "an ordinary product while the tag is paused")
amem.resume("cuda_graph"); y.zero_(); z.zero_(); tagged.replay(); expect(torch.equal(y, want) and torch.equal(z, want + 1), "a replay after the resume")
print(f"{freed} MiB freed")
""",
    "libraries": """
torch.manual_seed(1); m = torch.randn(64, 64, device="cuda"); x = torch.randn(8, 16, 64, 64, device="cuda"); q = torch.randn(2, 8, 128, 64, device="cuda", dtype=torch.bfloat16)
conv = torch.nn.Conv2d(16, 32, 3, device="cuda"); sparse = torch.eye(64).to_sparse_csr().cuda(); F = torch.nn.functional
calls = {"cudnn": lambda: conv(x), "cusolver": lambda: torch.linalg.svdvals(m), "inverse": lambda: torch.linalg.inv(m), "cufft": lambda: torch.fft.rfft(m).abs(),
         "cusparse": lambda: sparse @ m, "attention": lambda: F.scaled_dot_product_attention(q, q, q), "sort": lambda: m.sort().values, "scan": lambda: torch.cumsum(m, 1),
         "cublas": lambda: m @ m, "batched": lambda: torch.bmm(q[0], q[0].transpose(1, 2)), "topk": lambda: torch.topk(m, 5).values, "norm": lambda: F.layer_norm(m, (64,))}
with torch.no_grad():
    with amem.region("weights"): inside = {name: call() for name, call in calls.items()}
    torch.cuda.synchronize(); want = {name: value.clone() for name, value in inside.items()}; amem.pause("weights")
    for name, call in calls.items(): expect(torch.allclose(call(), want[name], rtol=1e-3, atol=1e-3), f"{name} while the tag is paused")
    amem.resume("weights"); expect(all(torch.equal(inside[name], want[name]) for name in calls), "contents")
""",
    "compiled": """
with amem.region("weights"): layers = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)).cuda()
step = torch.compile(layers, mode="reduce-overhead"); x = product(); results = []
with torch.no_grad():
    for turn in range(8):
        torch.compiler.cudagraph_mark_step_begin(); results.append(step(x).clone())
        if turn > 2: amem.pause("weights"); amem.resume("weights")
        if turn == 5: layers[0].weight.mul_(2); layers[2].weight.mul_(2)
    torch._dynamo.reset(); expect(all(torch.equal(each, results[0]) for each in results[:6]) and not torch.equal(results[6], results[0]) and torch.equal(results[6], results[7]), "a graph of torch.compile")
""",
    "profiler": """
a = product(); want = a @ a
with amem.region("weights"): w = product()
with torch.profiler.profile() as profile:
    for _ in range(3): amem.pause("weights"); a.add_(0); amem.resume("weights"); result = a @ w
    torch.cuda.synchronize()
expect(torch.equal(result, want) and any(event.device_time_total > 0 for event in profile.key_averages()), "a profile")
""",
    "adapters": """
with amem.region("weights"): base = torch.randn(2048, 2048, device="cuda")
def adapter(i):
    with amem.region(f"adapter{i}"): return torch.full((2048, 16), i + 1.0, device="cuda"), torch.ones(16, 2048, device="cuda")
adapters = [adapter(i) for i in range(3)]; x = torch.ones(4, 2048, device="cuda"); graph = torch.cuda.CUDAGraph()
def out(i): return x @ base + (x @ adapters[i][0]) @ adapters[i][1]
side = torch.cuda.Stream()
with torch.cuda.stream(side): wanted = [out(i) for i in range(3)]
torch.cuda.synchronize()
with amem.cuda_graph(graph): y = out(1)
graph.replay(); torch.cuda.synchronize(); recorded = y.clone()
for turn in range(6):
    use = turn % 3; others = [f"adapter{i}" for i in range(3) if i != use]
    amem.pause(*others); expect(torch.allclose(out(use), wanted[use]), f"adapter {use} while the others are paused"); amem.resume(*others)
    amem.pause("weights", "adapter1", "cuda_graph"); amem.resume("cuda_graph", "weights", "adapter1"); y.zero_(); graph.replay(); expect(torch.equal(y, recorded), "the graph")
amem.pause("adapter0"); adapters[0] = None; gc.collect(); adapters[0] = adapter(0); amem.resume("adapter0"); expect(torch.allclose(out(0), wanted[0]), "an adapter that was replaced while paused")
""",
    "failed_capture": """
x = torch.ones(1 << 20, device="cuda"); graph = torch.cuda.CUDAGraph()
try:
    with amem.cuda_graph(graph): y = x * 2; y.sum().item()
    sys.exit("wrong: the capture did not fail")
except (RuntimeError, torch.AcceleratorError if hasattr(torch, "AcceleratorError") else RuntimeError): pass
torch.cuda.synchronize(); gc.collect()
graph = torch.cuda.CUDAGraph(); host = torch.zeros(1 << 20).pin_memory()
with amem.cuda_graph(graph): y = x * 2; z = torch.zeros_like(y); z.copy_(y); host.copy_(z, non_blocking=True)
graph.replay(); torch.cuda.synchronize(); amem.pause("cuda_graph"); amem.resume("cuda_graph"); host.zero_()
graph.replay(); torch.cuda.synchronize(); expect(float(z[-1]) == 2 and float(host[5]) == 2, "copies and memsets")
""",
    "shared_pool": """
x = torch.ones(1 << 22, device="cuda"); handle = torch.cuda.graph_pool_handle(); graphs, outs = [], []
for i in range(3):
    graph = torch.cuda.CUDAGraph()
    with amem.cuda_graph(graph, pool=handle): outs.append((x * (i + 2)).sum())
    graphs.append(graph)
before = free(); amem.pause("cuda_graph"); freed = free() - before; amem.resume("cuda_graph")
for i, graph in enumerate(graphs):
    graph.replay(); expect(float(outs[i]) == (i + 2) * (1 << 22), f"graph {i}")
print(f"{freed} MiB freed"); expect(freed > 0, "nothing freed")
""",
    "own_pool_and_graph": """
pool = torch.cuda.MemPool(); graph = torch.cuda.CUDAGraph(); x = torch.ones(1 << 20, device="cuda")
with torch.cuda.stream(torch.cuda.Stream()): warm = x * 2
torch.cuda.synchronize()
with amem.region("weights"):
    w = of(3 * MIB); w.fill_(1)
    with torch.cuda.use_mem_pool(pool): mine = of(300000); mine.fill_(5)
    with torch.cuda.graph(graph): y = x * 3
    noise = torch.rand(1 << 20, device="cuda")
with torch.cuda.use_mem_pool(pool): later = of(300000); later.fill_(5)
amem.pause("weights"); later.add_(1); mine.add_(1); graph.replay()
expect(int(mine[0]) == 6 and int(later[-1]) == 6 and float(y[-1]) == 3, "ordinary memory while the tag is paused")
amem.resume("weights"); expect(int(w[0]) == 1 and int(w[-1]) == 1, "weights")
""",
    "second_gpu": """
if torch.cuda.device_count() < 2: print("left out: one GPU"); sys.exit()
first = of(MIB)
with amem.region("weights"): inside = of(512 * MIB, "cuda:1"); inside.fill_(7)
later = [of(3 * MIB, "cuda:1") for _ in range(4)]; before = free(1)
amem.pause("weights"); torch.cuda.synchronize(1); expect(free(1) - before >= 450, f"{free(1) - before} MiB of the second GPU freed")
for tensor in later: tensor.fill_(3)
torch.cuda.synchronize(1); expect(all(int(t[-1]) == 3 for t in later), "ordinary memory of the second GPU")
amem.resume("weights"); expect(int(inside[-1]) == 7, "contents on the second GPU")
""",
    "expandable_segments": """
with amem.region("weights"): t = of(512 * MIB); t.fill_(7)
plain = of(100 * MIB); plain.fill_(9); before = free(); amem.pause("weights"); freed = free() - before; plain.add_(1); amem.resume("weights")
expect(freed >= 508 and int(t[-1]) == 7 and int(plain[-1]) == 10, f"{freed} MiB freed")
expect(torch.cuda.memory._snapshot()["allocator_settings"]["expandable_segments"], "the setting")
""",
    "growth": """
import random; random.seed(1)
with amem.region("weights"):
    tensors = [of(random.randint(1, 9) * 100003) for _ in range(300)]; random.shuffle(tensors); del tensors[::2]
    odd = [of(3000) for _ in range(4)]; del odd[1]; big = of(3 * MIB)
for tensor in tensors: tensor.fill_(5)
reserved, before = torch.cuda.memory_reserved(), free()
for _ in range(40): amem.pause("weights"); amem.resume("weights")
expect(torch.cuda.memory_reserved() == reserved, "reserved memory"); expect(abs(free() - before) <= 2, f"{before - free()} MiB more in use")
expect(all(int(t[0]) == 5 and int(t[-1]) == 5 for t in tensors), "contents")
""",
    "times": """
of(1); best = 1
for _ in range(200):
    start = time.perf_counter()
    with amem.region("weights"): pass
    best = min(best, time.perf_counter() - start)
with amem.region("blocks"): ts = [of(30000) for _ in range(2000)]
del ts[::2]; start = time.perf_counter(); amem.pause("blocks"); spent = time.perf_counter() - start; amem.resume("blocks")
pool = [p for p in amem.torch_pools._ended if p.owner.tag == "blocks"][0]
start = time.perf_counter(); segments = amem.torch_pools.segments(torch, pool.id); snapshot = time.perf_counter() - start
def allocate(n=20, size=64 * MIB):
    out = []; torch.cuda.synchronize(); start = time.perf_counter()
    for _ in range(n): out.append(of(size))
    made = time.perf_counter() - start; del out[:]; gc.collect(); torch.cuda.synchronize(); start = time.perf_counter(); torch.cuda.empty_cache(); torch.cuda.synchronize()
    return 1e3 * made / n, 1e3 * (time.perf_counter() - start) / n
allocate(); plain = min(allocate() for _ in range(5))
def inside():
    with amem.region("weights"):
        out = []; torch.cuda.synchronize(); start = time.perf_counter()
        for _ in range(20): out.append(of(64 * MIB))
        made = time.perf_counter() - start
    del out[:]; gc.collect(); torch.cuda.synchronize(); start = time.perf_counter(); torch.cuda.empty_cache(); torch.cuda.synchronize()
    return 1e3 * made / 20, 1e3 * (time.perf_counter() - start) / 20
inside(); own = min(inside() for _ in range(5))
print(f"region {1e6 * best:.0f} us; snapshot of {sum(len(s['blocks']) for s in segments)} blocks {1e3 * snapshot:.2f} ms, pause {1e3 * spent:.1f} ms; 64 MiB allocated and freed: plain {plain[0]:.3f} and {plain[1]:.3f} ms, region {own[0]:.3f} and {own[1]:.3f} ms")
""",
}


def main() -> None:
    wrong = []
    for name in sys.argv[1:] or CASES:
        code = CASES[name]
        settings = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if name == "expandable_segments" else {}
        start = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", HEAD + code], env={**os.environ, **settings}, capture_output=True, text=True,
                              timeout=100, check=False)
        said = done.stdout + done.stderr if done.returncode else done.stdout.strip()
        print(f"{name}: {'ok' if done.returncode == 0 else 'WRONG'} in {time.perf_counter() - start:.1f} s {said}", flush=True)
        wrong += [name] if done.returncode else []
    sys.exit(f"wrong: {wrong}" if wrong else 0)


if __name__ == "__main__":
    main()
