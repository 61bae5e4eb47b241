// SPDX-License-Identifier: GPL-2.0
/* What Rust cannot express: symbol exports. No logic. */
#include <linux/export.h>
#include <linux/module.h>
#include <rdma/iw_cm.h>

EXPORT_SYMBOL(iw_cm_accept);
EXPORT_SYMBOL(iw_cm_connect);
EXPORT_SYMBOL(iw_cm_disconnect);
EXPORT_SYMBOL(iw_cm_init_qp_attr);
EXPORT_SYMBOL(iw_cm_listen);
EXPORT_SYMBOL(iw_cm_reject);
EXPORT_SYMBOL(iw_create_cm_id);
EXPORT_SYMBOL(iw_destroy_cm_id);
EXPORT_SYMBOL(iwcm_reject_msg);
