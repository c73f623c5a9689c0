"""`python training.py SECONDS [--no-steps]`: a small model that trains on the CPU, for captures."""

import sys
import time

import torch  # type: ignore[import-not-found,unused-ignore]

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    loss = model(torch.randn(32, 64)).sum()
    optimizer.zero_grad()
    loss.backward()
    if "--no-steps" not in sys.argv:
        optimizer.step()
    time.sleep(0.02)
