"""`python training_slows.py SECONDS FILE`: a model that trains on the CPU, and slower once a file is there.

Its input gets late then: each step waits for it.
"""

import sys
import time
from pathlib import Path

import torch  # type: ignore[import-not-found,unused-ignore]

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
slow = Path(sys.argv[2])


class Images(torch.utils.data.Dataset):  # type: ignore[misc,name-defined,unused-ignore]
    """Of noise."""

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, at: int) -> object:
        time.sleep(0.2 if slow.exists() else 0.01)
        return torch.randn(64)


end = time.monotonic() + float(sys.argv[1])
for batch in torch.utils.data.DataLoader(Images(), batch_size=1):
    loss = model(batch).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if time.monotonic() >= end:
        break
