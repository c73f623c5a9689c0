"""`python training_hard.py SECONDS`: a model that trains on the CPU without a pause, so that tracing it costs."""

import sys
import time

import torch  # type: ignore[import-not-found,unused-ignore]

torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(20)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    optimizer.zero_grad()
    model(torch.randn(32, 64)).sum().backward()
    optimizer.step()
