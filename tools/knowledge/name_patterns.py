"""Patterns of recorded names, for every framework and vendor.

Patterns are matched against the distinct names of a trace, never row by row.
"""

from __future__ import annotations

import re
from types import MappingProxyType

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.events import name_mask

PATTERNS: MappingProxyType[str, re.Pattern[str]] = MappingProxyType(
    {
        # Device kernels that move data between devices or wait for other ranks.
        "communication_kernel": re.compile(
            r"^(void )?(\w+::)*(nccl|rccl|hccl|oneccl|msccl|mscclpp)"
            r"|nccl(Dev)?Kernel|rccl_main_kernel|hcom_|hccl_|oneccl"
            r"|deep_ep::|nvshmem|rocshmem|ishmem"
            r"|^MPI_|\bmpi_"
            r"|cross_device_reduce|(one|two)_shot_(all_reduce|allreduce)|quick_?reduce|custom_all_reduce"
            r"|multimem_(all_reduce|all_gather|reduce_scatter)"
            r"|(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|all2all)\w*_?kernel"
            r"|symm_mem.*(barrier|wait_signal|put_signal)",
            re.IGNORECASE,
        ),
        # Host spans that stand for one collective.
        "communication_span": re.compile(r"^(nccl|rccl|gloo|mpi|ucc|xccl|ccl|hccl|oneccl):", re.IGNORECASE),
        "communication_operator": re.compile(r"^(c10d::|record_param_comms|_c10d_functional::)"),
        "profiler_step": re.compile(r"^ProfilerStep#?\d+"),
        # The training thread asks a data loader for the next batch.
        "loader_span": re.compile(
            r"^enumerate\(DataLoader\)#|^enumerate\(\w*(DataLoader|Dataset|Loader)\w*\)"
            r"|DataLoader\w*(Iter)?\.__next__|^\[pl\]\[(profile|module)\].*dataloader_next|train_dataloader_next"
        ),
        "pin_memory": re.compile(r"pin_memory", re.IGNORECASE),
        "optimizer": re.compile(r"^Optimizer\.step#|^Optimizer\.zero_grad#"),
        # Runtime calls. The driver's cuLaunchKernel and HIP's names are included.
        "launch": re.compile(
            r"^(cuda|hip)(Launch\w*|GraphLaunch|Memcpy\w*|Memset\w*|ExtLaunch\w*|ModuleLaunch\w*|HccModuleLaunch\w*)"
            r"|^cu(LaunchKernel\w*|GraphLaunch|Memcpy\w*|Memset\w*)|^urEnqueue|^zeCommandListAppend|^piEnqueue"
        ),
        "kernel_launch": re.compile(r"^(cuda|hip)(Ext|Module|HccModule)?Launch\w*Kernel|^cuLaunchKernel"),
        "synchronization": re.compile(
            r"^(cuda|hip)(Device|Stream|Event)Synchronize|^cu(Ctx|Stream|Event)Synchronize"
            r"|^(urQueueFinish|urEventWait|zeCommandQueueSynchronize|piQueueFinish|piEventsWait)"
        ),
        "event_record": re.compile(r"^(cuda|hip|cu)EventRecord"),
        "stream_wait": re.compile(r"^(cuda|hip|cu)StreamWaitEvent"),
        "device_allocation": re.compile(
            r"^(cuda|hip)(Malloc|Free)(Async|Managed|FromPoolAsync)?$|^cuMem(Alloc|Free|Create|Release|Map|Unmap)"
        ),
        # Freeing device memory waits until the device is done.
        "device_free": re.compile(r"^(cuda|hip)Free$|^cuMemFree"),
        "host_allocation": re.compile(
            r"^(cuda|hip)(HostAlloc|MallocHost|FreeHost|HostFree|HostRegister|HostUnregister)"
        ),
        "garbage_collection": re.compile(
            r"(?i)^(python )?gc\b|garbage[ _]collect|^gc\.collect|gc::|^<built-in (function|method) collect>"
        ),
        # Work of a just-in-time compiler; cache look-ups and the running of compiled regions are not compilation.
        "compilation": re.compile(
            r"(?i)\(dynamo_timed\)|^dynamo_timed|^_compile\.compile_inner|^compile_fx|inductor.*compil"
            r"|torch/_dynamo/convert_frame\.py.*: _?compile|triton/compiler/compiler\.py.*: compile"
            r"|^(cuda|hip|cu)ModuleLoad(Data|DataEx|FatBinary)?$|^cu(da)?LibraryLoadData|^nvrtcCompileProgram"
        ),
        "compiled_region": re.compile(
            r"(?i)^torch-compiled region|^torchdynamo cache lookup|^compiledfunction|^call compiledfx|^triton_"
        ),
        "graph_capture": re.compile(r"^(cuda|hip)(StreamBeginCapture|GraphInstantiate)"),
        "single_process_loader": re.compile(r"_SingleProcessDataLoaderIter"),
        "multi_process_loader": re.compile(r"_MultiProcessingDataLoaderIter"),
        # Python frames (with_stack) inside a loader span: waiting for bytes, and working on them.
        "reading_frame": re.compile(
            r"(?i)<built-in (function|method) (open|read\w*|recv\w*|stat|pread|mmap)\b"
            r"|\b(fsspec|s3fs|boto|gcsfs|smart_open)"
            r"|\b(zipfile|tarfile|h5py|lmdb|io)\b[^:]*: (read|open|get)|: (read_file|read_bytes|_?download)\b"
        ),
        "processing_frame": re.compile(
            r"(?i)\b(PIL|torchvision|albumentations|cv2|librosa|soundfile|tokenizers|transformers)\b"
            r"|\b(decode|decompress|transform|augment|resize|crop|tokeni[sz]e|collate)\w*"
        ),
        "upload": re.compile(r"(?i)HtoD|host\s*->\s*device|host to device"),
        "pageable_upload": re.compile(r"(?i)pageable\s*->\s*device"),
        "read_back": re.compile(r"(?i)DtoH|device\s*->\s*(host|pageable|pinned)|device to host"),
        # Python frames that write the training's state to storage.
        "saving_frame": re.compile(
            r"torch/serialization\.py.*: (save|_save|_legacy_save)$"
            r"|torch/distributed/checkpoint/.*: save(_state_dict)?$"
            r"|safetensors/.*: save_(file|model)$|: save_(checkpoint|pretrained|state|state_dict)$"
        ),
        "library_frame": re.compile(
            r"^(torch/|nn\.Module|<built-in|<frozen|<string>|<__array|threading\.py|runpy\.py|contextlib\.py)"
            r"|site-packages/|dist-packages/|^PyTorch Profiler"
        ),
        # Autograd's anomaly detection looks at every gradient, once each.
        "anomaly_check": re.compile(r"^aten::(isnan|any)$"),
        # Operators that hand on a tensor's numbers in another shape and compute nothing.
        "view_operator": re.compile(r"^aten::(view|t|transpose|permute|expand|unsqueeze|squeeze|select|slice)$"),
        # The forward of a checkpointed region, computed again for the backward.
        "recomputation": re.compile(r"torch/utils/checkpoint\.py.*: recompute_fn$"),
        # Operators of a forward pass as a program calls them; inside a node of the backward they run a second time.
        "forward_operator": re.compile(
            r"^aten::(conv[123]d|convolution|linear|batch_norm|layer_norm|group_norm|rms_norm"
            r"|embedding|scaled_dot_product_attention|max_pool2d|adaptive_avg_pool2d)$"
        ),
        # Autograd nodes and functions written in Python (named as classes) compute only in operators inside them.
        "enclosing_operator": re.compile(r"^(autograd::engine::|torch::autograd::)|^[A-Z]\w*$"),
        "backward_node": re.compile(r"^autograd::engine::evaluate_function: "),
        "backward_work": re.compile(r"^autograd::engine::evaluate_function: |_backward$|_backward_\w+$"),
        # The gradient of a part taken out of a tensor: a tensor of the whole one's size, filled for every part.
        "part_gradient": re.compile(r"(Select|Slice|Index|AsStrided)Backward\d*$"),
        # Element-wise operators that read and write whole tensors and do little else.
        "elementwise_operator": re.compile(
            r"^aten::(mul|add|sub|rsub|div|neg|exp|log|log1p|tanh|sigmoid|pow|sqrt|rsqrt|reciprocal|abs|square|sign|sin"
            r"|cos|erf|clamp|clamp_min|clamp_max|where|maximum|minimum|addcmul|addcdiv|lerp|relu|silu|gelu|threshold"
            r"|(tanh|sigmoid|threshold|gelu|silu|hardtanh|softplus)_backward|masked_fill|bitwise_\w+|eq|ne|gt|lt|ge|le)_?$"
        ),
        # Convolutions outside the tuned library: one sample after the other, by unfolding and multiplying.
        "fallback_convolution": re.compile(r"^aten::_?slow_conv|^aten::(_?thnn_conv|slow_conv_dilated)"),
        "scalar_read": re.compile(r"^aten::(item|_local_scalar_dense|is_nonzero|equal|nonzero)$"),
        "matmul_kernel": re.compile(
            r"(?i)(?<!fb)gemm|gemv|cutlass|xmma|\bmma\b|matmul|Cijk_|nvjet|wgmma|(?<!Sub)tensorop|dot_kernel|splitk|cublas|bmm"
        ),
        "convolution_kernel": re.compile(
            r"(?i)conv|implicit_|wgrad|dgrad|fprop|winograd|cudnn.*(engine|scudnn)|scudnn|im2col|col2im|miopen|igemm|fft2d_|bwd_weight|bwd_data"
        ),
        "attention_kernel": re.compile(r"(?i)flash|fmha|attention|sdpa|attn_"),
        "normalization_kernel": re.compile(r"(?i)batch_?norm|layer_?norm|rms_?norm|group_?norm|\bbn_[fb]w|bn_fw|bn_bw"),
        "optimizer_kernel": re.compile(r"(?i)multi_tensor_apply|adam|lamb_|sgd_|fused_?optim"),
        "reduction_kernel": re.compile(r"(?i)reduce|softmax|cunn_|nll_loss|argmax|scan|sort|topk"),
        "elementwise_kernel": re.compile(
            r"(?i)elementwise|pointwise|triton_poi|copy_kernel|fill|activation|dropout|cast"
        ),
        "embedding_kernel": re.compile(r"(?i)embedding|index_(select|put|add)|gather|scatter"),
        "layout_kernel": re.compile(
            r"(?i)nchwToNhwc|nhwcToNchw|nchwAddPadding|transpose|convertTensor|tensorTransform|TransData"
        ),
        "concatenation_kernel": re.compile(r"CatArrayBatchedCopy|SplitWithSizes|(?i:concat)"),
        # Counted with matrix multiplications and convolutions, but without a matrix that a matrix unit could take.
        "matrix_free_kernel": re.compile(r"(?i)depthwise|dwconv|conv_dw|gemv|dot_kernel"),
        # Arithmetic of matrix multiplications and convolutions, by names of cuBLAS, cuDNN, CUTLASS, rocBLAS, CK.
        "matrix_unit": re.compile(
            r"(?i)(?<!Sub)tensorop|hmma|wgmma|gmma|mfma|xdlops|_xdl_|gtcx|nvjet|tf32|tfloat32|_MI\d+x\d+|flash_?(fwd|bwd|att)"
            r"|[hsidc](884|1688|16816|16832|8816|168128)|xmma_\w*(?<!t)f16|xmma_\w*(bf16|e4m3|e5m2)|cudnn_generated_fort_native_sdpa"
        ),
        "vector_unit": re.compile(
            r"(?i)\w+_(s|d|h|c|z|gc)gemm_\d|simt|OpClassSimt|ffma|scudnn|convolve_(s|d|h)gemm|(dgrad|wgrad|fprop)\w*_(engine|alg)"
            r"|wgrad_alg\d|dgrad_alg\d|\bgemv|gemm(SN|k1)|fft2d_|winograd|f32f32_f32f32_f32|naive_conv|dot_kernel|Sp3AsmConv"
        ),
        # Elements per load, which the library chooses by the operands' alignment.
        "elements_per_load": re.compile(r"_align(\d+)|_ldg(\d+)_"),
        "arithmetic_fp8": re.compile(r"(?i)e4m3|e5m2|fp8|float8|qgmma|nvjet_(sm\d+_)?q"),
        "arithmetic_fp64": re.compile(
            r"(?i)dgemm|dgemv|[_:]zgemm|[^a-z]d(884|16816)|dmma|f64f64|(?<!optional)<double\b|lambda\(double\)|(?-i:_(DB|ZB)_)"
        ),
        "arithmetic_bf16": re.compile(r"(?i)bf16|bfloat16|(?-i:_BB?S?_)|nvjet_(sm\d+_)?t"),
        "arithmetic_fp16": re.compile(
            r"(?i)(?<![tb])f16(?!\d)|fp16|\bhalf|_half|6half_t|[_a-z]h(884|1688|16816|gemm)|hmma|[^a-z]s884"
            r"|(?-i:_H(H|S|B)S?_)|nvjet_(sm\d+_)?h"
        ),
        "arithmetic_tf32": re.compile(r"(?i)tf32|tfloat32|tensorop_s1688(?!\w*f16)"),
        "arithmetic_fp32": re.compile(
            r"(?i)[^a-z]s?gemm_\d+x|sgemm|scudnn|<float|, float|f32f32|cf32|ffma|cgemm|(?-i:_SB_)"
            r"|fft2d_\w+<float|simt_s"
        ),
    }
)

KERNEL_CLASSES: tuple[str, ...] = (
    "communication_kernel",
    "attention_kernel",
    "layout_kernel",
    "concatenation_kernel",
    "normalization_kernel",
    "convolution_kernel",
    "matmul_kernel",
    "optimizer_kernel",
    "embedding_kernel",
    "reduction_kernel",
    "elementwise_kernel",
)


def matching(names: pd.Series, pattern: str) -> NDArray[np.bool_]:
    """For each event, whether its name matches the named pattern (``names`` is a categorical column)."""
    return name_mask(names, PATTERNS[pattern].search)


def kernel_class(name: str) -> str:
    """The class of a device kernel: the first pattern of ``KERNEL_CLASSES`` that matches, else ``other``."""
    for candidate in KERNEL_CLASSES:
        if PATTERNS[candidate].search(name):
            return candidate.removesuffix("_kernel")
    return "other"


# Checked in this order: the longer names hold the shorter ones.
COLLECTIVE_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("all_to_all", r"all_?to_?all|all2all"),
        ("all_gather", r"all_?gather"),
        ("reduce_scatter", r"reduce_?scatter"),
        ("all_reduce", r"all_?reduce|cross_device_reduce|(one|two)_shot"),
        ("broadcast", r"broadcast|bcast"),
        ("barrier", r"barrier"),
        ("send_recv", r"send_?recv|(^|[:_ ])(i?send|i?recv)"),
        ("reduce", r"reduce"),
        ("gather", r"gather"),
        ("scatter", r"scatter"),
    )
)


def collective_kind(name: str) -> str:
    """The kind of collective that a kernel, a host span or a recorded collective name stands for, "" if unclear."""
    for kind, pattern in COLLECTIVE_KINDS:
        if pattern.search(name):
            return kind
    return ""
