"""Ten training iterations of a torchvision network on fixed random data; prints one line of JSON with
the losses and times. A plain PyTorch program: it knows nothing of microdnn.

    pytorch_train.py NET BATCH [--benchmark] [--deterministic] [--tf32] [--iterations N]
"""
import argparse
import json

import torch
import torchvision

parser = argparse.ArgumentParser()
parser.add_argument("net")
parser.add_argument("batch", type=int)
parser.add_argument("--benchmark", action="store_true")
parser.add_argument("--deterministic", action="store_true")
parser.add_argument("--tf32", action="store_true")
parser.add_argument("--iterations", type=int, default=10)
options = parser.parse_args()

torch.manual_seed(0)
torch.backends.cudnn.benchmark = options.benchmark
torch.backends.cudnn.deterministic = options.deterministic
torch.backends.cudnn.allow_tf32 = options.tf32
torch.backends.cuda.matmul.allow_tf32 = False
more = {"init_weights": False, "aux_logits": False} if options.net == "inception_v3" else {}
model = torchvision.models.get_model(options.net, weights=None, num_classes=100, **more).cuda().train()
for module in model.modules():
    if isinstance(module, torch.nn.Dropout):
        module.p = 0.0  # its masks depend on the launch order of other kernels
side = 299 if options.net == "inception_v3" else 224
data = torch.randn(options.batch, 3, side, side, device="cuda")
labels = torch.randint(100, (options.batch,), device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
losses, times = [], []
for _ in range(options.iterations):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(data), labels)
    loss.backward()
    optimizer.step()
    end.record()
    torch.cuda.synchronize()
    losses.append(loss.item())
    times.append(begin.elapsed_time(end))
print(json.dumps({"losses": losses, "ms": times, "peak": torch.cuda.max_memory_allocated()}))
