/* PyTorch keeps freed memory for itself, but under a budget each tensor should be an allocation of its own. There are
 * two ways to get that, of which the first is better: PyTorch's backend cudaMallocAsync, which must be chosen before
 * libtorch is loaded; or no cache, which must be chosen before the first allocation. */
#ifndef MDNN_PYTORCH_H
#define MDNN_PYTORCH_H

/* Called at a lookup of cuGetProcAddress, which the CUDA runtime makes before anything else. Reads
 * the options and, if a budget is on, sets the variables that PyTorch will read. Only the first
 * call has an effect. */
void mdnn_pytorch_prepare(void);

#endif
