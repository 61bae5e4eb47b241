// SPDX-License-Identifier: GPL-2.0
/* The tracepoints of rdma_cm, which the kernel's own header defines. No logic. */
#include <rdma/rdma_cm.h>
#include <rdma/ib_cm.h>
#include "cma_priv.h"
#include "../rust/helpers/helpers.h"

#define CREATE_TRACE_POINTS
#include "cma_trace.h"

void rdma_helper_cma_trace(u32 step, const void *id)
{
	switch (step) {
	case 0:
		return trace_cm_send_rtu(id);
	case 1:
		return trace_cm_send_rej(id);
	case 2:
		return trace_cm_prepare_mra(id);
	case 3:
		return trace_cm_send_sidr_req(id);
	case 4:
		return trace_cm_send_sidr_rep(id);
	case 5:
		return trace_cm_disconnect(id);
	case 6:
		return trace_cm_sent_drep(id);
	case 7:
		return trace_cm_sent_dreq(id);
	case 8:
		return trace_cm_id_destroy(id);
	case 9:
		return trace_cm_send_req(id);
	case 10:
		return trace_cm_send_rep(id);
	case 11:
		return trace_cm_qp_destroy(id);
	}
}

void rdma_helper_cma_trace_attach(const void *id, const struct ib_device *device)
{
	trace_cm_id_attach(id, device);
}

void rdma_helper_cma_trace_qp(const void *id, const struct ib_pd *pd,
			      const struct ib_qp_init_attr *attr, int result)
{
	trace_cm_qp_create(id, pd, attr, result);
}

void rdma_helper_cma_trace_request(const void *id, int event)
{
	trace_cm_req_handler(id, event);
}

void rdma_helper_cma_trace_event(const void *id, const struct rdma_cm_event *event)
{
	trace_cm_event_handler(id, event);
}

void rdma_helper_cma_trace_done(const void *id, const struct rdma_cm_event *event, int result)
{
	trace_cm_event_done(id, event, result);
}

void rdma_helper_cma_trace_device(const struct ib_device *device, bool added)
{
	if (added)
		trace_cm_add_one(device);
	else
		trace_cm_remove_one(device);
}
