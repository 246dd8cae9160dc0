#include "agent/job_order.hpp"

namespace gf::agent {
namespace {

void put_list(Frame& frame, const std::vector<std::string>& list) {
    frame.fields.push_back(std::to_string(list.size()));
    frame.fields.insert(frame.fields.end(), list.begin(), list.end());
}

std::vector<std::string> get_list(const Frame& frame, std::size_t& at) {
    const auto count = static_cast<std::size_t>(frame.number(at++));
    std::vector<std::string> list;
    for (std::size_t i = 0; i < count; ++i) list.push_back(frame.field(at++));
    return list;
}

}  // namespace

Frame frame_of(const JobOrder& order) {
    Frame frame{.type = FrameType::start_job};
    frame.fields = {order.mark,
                    order.folder,
                    order.command,
                    order.drop_user ? "1" : "0",
                    std::to_string(order.uid),
                    std::to_string(order.gid),
                    order.spool,
                    std::to_string(order.limits.head_max),
                    std::to_string(order.limits.tail_max),
                    std::to_string(order.limits.segment_max)};
    put_list(frame, order.env);
    put_list(frame, order.secrets);
    std::vector<std::string> groups;
    for (const unsigned g : order.groups) groups.push_back(std::to_string(g));
    put_list(frame, groups);
    put_list(frame, order.entrypoint);
    put_list(frame, order.client);
    put_list(frame, order.client_env);
    put_list(frame, order.remove);
    put_list(frame, order.inspect);
    frame.fields.insert(frame.fields.end(), {order.door, order.path_more, order.saves_in, order.give_back ? "1" : "0",
                                             std::to_string(order.owner_uid), std::to_string(order.owner_gid)});
    return frame;
}

JobOrder order_of(const Frame& frame) {
    JobOrder order{.mark = frame.field(0),
                   .folder = frame.field(1),
                   .command = frame.field(2),
                   .env = {},
                   .secrets = {},
                   .drop_user = frame.field(3) == "1",
                   .uid = static_cast<unsigned>(frame.number(4)),
                   .gid = static_cast<unsigned>(frame.number(5)),
                   .groups = {},
                   .spool = frame.field(6),
                   .limits = {.head_max = frame.number(7), .tail_max = frame.number(8), .segment_max = frame.number(9)},
                   .entrypoint = {},
                   .client = {},
                   .client_env = {},
                   .remove = {},
                   .inspect = {},
                   .door = {},
                   .path_more = {},
                   .saves_in = {}};
    std::size_t at = 10;
    order.env = get_list(frame, at);
    order.secrets = get_list(frame, at);
    const auto count = static_cast<std::size_t>(frame.number(at++));
    for (std::size_t i = 0; i < count; ++i) order.groups.push_back(static_cast<unsigned>(frame.number(at++)));
    order.entrypoint = get_list(frame, at);
    order.client = get_list(frame, at);
    order.client_env = get_list(frame, at);
    order.remove = get_list(frame, at);
    order.inspect = get_list(frame, at);
    order.door = frame.field(at++);
    order.path_more = frame.field(at++);
    order.saves_in = frame.field(at++);
    order.give_back = frame.field(at++) == "1";
    order.owner_uid = static_cast<unsigned>(frame.number(at++));
    order.owner_gid = static_cast<unsigned>(frame.number(at++));
    return order;
}

Frame frame_of(const std::string& mark, const JobExit& exit) {
    return Frame{.type = FrameType::job_exited,
                 .fields = {mark, exit.started ? "1" : "0", std::to_string(exit.wait_status), exit.oom ? "1" : "0",
                            exit.killed ? "1" : "0", std::to_string(exit.log_bytes), exit.detail,
                            exit.keeper_lost ? "1" : "0", std::to_string(exit.ended_ms), exit.spec_fault ? "1" : "0",
                            exit.unended ? "1" : "0", std::to_string(exit.newest_ms)}};
}

JobExit exit_of(const Frame& frame) {
    return JobExit{.started = frame.field(1) == "1",
                   .wait_status = static_cast<int>(frame.number(2)),
                   .oom = frame.field(3) == "1",
                   .killed = frame.field(4) == "1",
                   .log_bytes = frame.number(5),
                   .detail = frame.field(6),
                   .ended_ms = frame.number(8),
                   .newest_ms = frame.number(11),
                   .keeper_lost = frame.field(7) == "1",
                   .spec_fault = frame.field(9) == "1",
                   .unended = frame.field(10) == "1"};
}

}  // namespace gf::agent
