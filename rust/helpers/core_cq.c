// SPDX-License-Identifier: GPL-2.0
/* Helpers for ib_core: completion queues of kernel consumers. */
#include <linux/cpumask.h>
#include <linux/list.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <trace/events/rdma_core.h>
#include "helpers.h"

void rdma_helper_init_work(struct work_struct *work, work_func_t fn)
{
	INIT_WORK(work, fn);
}

unsigned int rdma_helper_num_online_cpus(void)
{
	return num_online_cpus();
}

void rdma_helper_trace_cq_schedule(struct ib_cq *cq)
{
	trace_cq_schedule(cq);
}

void rdma_helper_trace_cq_reschedule(struct ib_cq *cq)
{
	trace_cq_reschedule(cq);
}

void rdma_helper_trace_cq_modify(const struct ib_cq *cq, u16 comps, u16 usec)
{
	trace_cq_modify(cq, comps, usec);
}

void rdma_helper_trace_cq_alloc(const struct ib_cq *cq, int nr_cqe, int comp_vector,
				unsigned int poll_ctx)
{
	trace_cq_alloc(cq, nr_cqe, comp_vector, poll_ctx);
}

void rdma_helper_trace_cq_alloc_error(int nr_cqe, int comp_vector,
				      unsigned int poll_ctx, int rc)
{
	trace_cq_alloc_error(nr_cqe, comp_vector, poll_ctx, rc);
}

void rdma_helper_trace_cq_free(const struct ib_cq *cq)
{
	trace_cq_free(cq);
}
