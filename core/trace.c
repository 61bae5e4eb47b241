// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of the core are defined by the kernel's own header. */
#define CREATE_TRACE_POINTS
#include <trace/events/rdma_core.h>
