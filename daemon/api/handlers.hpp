// Every handler, by the file that holds it. What each does is in openapi.json.
#pragma once
#include "daemon/api/context.hpp"

namespace gf::api {

// submit.cpp
void submit_job(Call call);
void plan_job(Call call);
// jobs.cpp
void list_jobs(Call call);
void show_job(Call call);
void cancel_job(Call call);
void retry_job(Call call);
void hold_job(Call call);
void release_job(Call call);
void explain_job(Call call);
void list_attempts(Call call);
void list_checkpoints(Call call);
void list_job_events(Call call);
// logs.cpp
void read_log(Call call);
// outputs.cpp
void list_outputs(Call call);
void read_output(Call call);
// cost.cpp
void job_cost(Call call);
void total_cost(Call call);
// market.cpp
void list_offers(Call call);
void list_gpus(Call call);
void list_providers(Call call);
// market_history.cpp
void offer_history(Call call);
// estimate.cpp
void estimate_memory(Call call);
// doctor.cpp
void check_providers(Call call);
// machines.cpp
void list_machines(Call call);
void show_machine(Call call);
void destroy_machine(Call call);
void adopt_machine(Call call);
void list_alerts(Call call);
// tokens.cpp
void list_tokens(Call call);
void make_token(Call call);
void revoke_token(Call call);
// secrets.cpp
void list_secrets(Call call);
void show_secret(Call call);
void put_secret(Call call);
void drop_secret(Call call);
// blobs.cpp
void put_blob(Call call);
void head_blob(Call call);
// events.cpp
void follow_events(Call call);
// health.cpp
void healthz(Call call);
void readyz(Call call);
void metrics(Call call);
void openapi(Call call);
void not_yet(Call call);

}  // namespace gf::api
