"""The script of pytorch issue 128947, whose convolution of five frames PyTorch carries out without cuDNN by one tensor of
161.4 GiB. Prints one line of JSON. A plain PyTorch program: it knows nothing of microdnn. check-columns starts it.

    columns.py [FRAMES]
"""
import json
import sys
import time

import torch

CHANNELS, HEIGHT, WIDTH = 256, 1090, 1922


def main():
    frames = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    with torch.device("cuda"), torch.no_grad():
        convolution = torch.nn.Conv3d(CHANNELS, 64, 3)
        video = torch.rand(1, CHANNELS, frames, HEIGHT, WIDTH)
        torch.backends.cudnn.enabled = False
        torch.cuda.synchronize()
        begin = time.perf_counter()
        found = convolution(video)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        # Of one frame at a time the columns are a third.
        worst = max((convolution(video[:, :, i:i + 3]) - found[:, :, i:i + 1]).abs().max().item()
                    for i in range(frames - 2))
        scale = found.abs().max().item()
    columns = CHANNELS * 27 * (frames - 2) * (HEIGHT - 2) * (WIDTH - 2) * 4
    print(json.dumps({"columns_gib": columns / 2**30, "seconds": seconds, "difference": worst / scale,
                      "sum": found.double().sum().item().hex()}))


if __name__ == "__main__":
    main()
