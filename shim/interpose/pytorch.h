/* PyTorch keeps freed memory for itself; under a budget each tensor is to be an allocation of its
 * own. Two ways, the first better: its cudaMallocAsync backend, which must be set
 * before libtorch is loaded, or no cache, which must be set before the first allocation. */
#ifndef MDNN_PYTORCH_H
#define MDNN_PYTORCH_H

/* At a lookup of cuGetProcAddress, which the CUDA runtime makes first of all: reads the options
 * and, if a budget is on, sets what PyTorch will read. The first call counts. */
void mdnn_pytorch_prepare(void);

#endif
