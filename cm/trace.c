// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints of ib_cm are defined by the kernel's own header. Numbers are those of
 * cm/edge/trace.rs; a, b and c are what the event has besides the ID.
 */
#include <linux/types.h>
#include <rdma/ib_cm.h>
#include "../rust/helpers/helpers.h"

#define CREATE_TRACE_POINTS
#include "cm_trace.h"

void rdma_helper_cm_trace(u32 which, const struct ib_cm_id *id, u32 a, u32 b, u32 c)
{
	switch (which) {
	case 0:
		trace_icm_send_req(id);
		break;
	case 1:
		trace_icm_send_rep(id);
		break;
	case 2:
		trace_icm_send_dup_req(id);
		break;
	case 3:
		trace_icm_send_dup_rep(id);
		break;
	case 4:
		trace_icm_send_rtu(id);
		break;
	case 5:
		trace_icm_send_sidr_req(id);
		break;
	case 6:
		trace_icm_send_sidr_rep(id);
		break;
	case 7:
		trace_icm_send_dreq(id);
		break;
	case 8:
		trace_icm_send_drep(id);
		break;
	case 9:
		trace_icm_send_rej(id, a);
		break;
	case 10:
		trace_icm_send_cm_rtu_err(id);
		break;
	case 11:
		trace_icm_establish_err(id);
		break;
	case 12:
		trace_icm_no_listener_err(id);
		break;
	case 13:
		trace_icm_send_drep_err(id);
		break;
	case 14:
		trace_icm_dreq_unknown_err(id);
		break;
	case 15:
		trace_icm_send_unknown_rej_err(id);
		break;
	case 16:
		trace_icm_rej_unknown_err(id);
		break;
	case 17:
		trace_icm_prepare_mra_unknown_err(id);
		break;
	case 18:
		trace_icm_mra_unknown_err(id);
		break;
	case 19:
		trace_icm_qp_init_err(id);
		break;
	case 20:
		trace_icm_qp_rtr_err(id);
		break;
	case 21:
		trace_icm_qp_rts_err(id);
		break;
	case 22:
		trace_icm_dreq_skipped(id);
		break;
	case 23:
		trace_icm_issue_rej(a, b);
		break;
	case 24:
		trace_icm_issue_drep(a, b);
		break;
	case 25:
		trace_icm_staleconn_err(a, b);
		break;
	case 26:
		trace_icm_no_priv_err(a, b);
		break;
	case 27:
		trace_icm_remote_no_priv_err(a);
		break;
	case 28:
		trace_icm_insert_failed_err(a);
		break;
	case 29:
		trace_icm_send_rep_err(cpu_to_be32(a), b);
		break;
	case 30:
		trace_icm_rep_unknown_err(a, b, c);
		break;
	case 31:
		trace_icm_mad_send_err(a, b);
		break;
	}
}
