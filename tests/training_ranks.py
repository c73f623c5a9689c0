"""`torchrun --nproc-per-node N -m tests.training_ranks SECONDS`: ranks that train a small model together (gloo)."""

import sys
import time

import torch  # type: ignore[import-not-found,unused-ignore]

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    optimizer.zero_grad()
    model(torch.randn(32, 64)).sum().backward()
    optimizer.step()
    time.sleep(0.02)
