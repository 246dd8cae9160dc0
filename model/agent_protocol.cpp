#include "model/agent_protocol.hpp"

#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

// The fields of each message are named once, in `fields`, for both directions: a visitor that writes and one that
// reads walk the same list, so the two ends cannot drift apart. `need` marks what a message has no meaning without.
namespace gf::agent_protocol {
namespace {

using Json = nlohmann::json;

template <class T, class M>
concept Of = std::same_as<std::remove_const_t<T>, M>;

template <class V>
void fields(V& v, Of<EnrolRequest> auto& m) {
    v("protocol_min", m.protocol_min);
    v("protocol_max", m.protocol_max);
    v.need("machine", m.machine);
    v.need("enrol", m.enrol);
    v.need("boot_id", m.boot_id);
    v("arch", m.arch);
    v("version", m.version);
}
template <class V>
void fields(V& v, Of<EnrolAnswer> auto& m) {
    v("protocol", m.protocol);
    v.need("session", m.session);
}
template <class V>
void fields(V& v, Of<GpuReport> auto& m) {
    v("name", m.name);
    v("memory_bytes", m.memory_bytes);
    v("driver", m.driver);
    v("uuid", m.uuid);
}
template <class V>
void fields(V& v, Of<MachineReport> auto& m) {
    v("gpus", m.gpus);
    v("cuda_probe", m.cuda_probe);
    v("cuda_devices", m.cuda_devices);
    v("cuda_names", m.cuda_names);
    v("cuda_version", m.cuda_version);
    v("disk_total", m.disk_total);
    v("disk_free", m.disk_free);
    v("memory_total", m.memory_total);
    v("cpus", m.cpus);
    v("arch", m.arch);
    v("workspace", m.workspace);
    v("hostname", m.hostname);
}
template <class V>
void fields(V& v, Of<Hello> auto& m) {
    v("report", m.report);
    v("attempt_number", m.attempt_number);
    v("attempt", m.attempt);
    v("attempt_state", m.attempt_state);
    v("log_bytes", m.log_bytes);
}
template <class V>
void fields(V& v, Of<GpuSample> auto& m) {
    v("util_percent", m.util_percent);
    v("memory_used", m.memory_used);
    v("memory_peak", m.memory_peak);
    v("temperature_c", m.temperature_c);
}
template <class V>
void fields(V& v, Of<Heartbeat> auto& m) {
    v("gpus", m.gpus);
    v("cpu_percent", m.cpu_percent);
    v("memory_used", m.memory_used);
    v("disk_free", m.disk_free);
    v("net_rx", m.net_rx);
    v("net_tx", m.net_tx);
    v("attempt", m.attempt);
    v("log_bytes", m.log_bytes);
}
template <class V>
void fields(V& v, Of<Preparing> auto& m) {
    v.need("attempt", m.attempt);
    v("phase", m.phase);
    v("detail", m.detail);
}
template <class V>
void fields(V& v, Of<Started> auto& m) {
    v.need("attempt", m.attempt);
    v("pid", m.pid);
    v("restored_generation", m.restored_generation);
}
template <class V>
void fields(V& v, Of<Exited> auto& m) {
    v.need("attempt", m.attempt);
    v("exit_code", m.exit_code);
    v("signal", m.signal);
    v("host_oom", m.host_oom);
    v("gpu_oom", m.gpu_oom);
    v("reason", m.reason);
    v("detail", m.detail);
    v("log_bytes", m.log_bytes);
}
template <class V>
void fields(V& v, Of<Progress> auto& m) {
    v.need("attempt", m.attempt);
    v("step", m.step);
    v("total", m.total);
}
template <class V>
void fields(V& v, Of<Notice> auto& m) {
    v("kind", m.kind);
    v("deadline_ms", m.deadline_ms);
}
template <class V>
void fields(V& v, Of<Welcome> auto& m) {
    v("heartbeat_ms", m.heartbeat_ms);
    v("time_scale", m.time_scale);
    v("acked_seq", m.acked_seq);
    v("dead_man_ms", m.dead_man_ms);
}
template <class V>
void fields(V& v, Of<Ack> auto& m) {
    v.need("seq", m.seq);
}
template <class V>
void fields(V& v, Of<CheckpointSpec> auto& m) {
    v("declared", m.declared);
    v("path", m.path);
    v("every_ms", m.every);
    v("keep", m.keep);
    v("signal", m.signal);
    v("signal_leader_only", m.signal_leader_only);
    v("grace_ms", m.grace);
    v("marker", m.marker);
    v("incomplete", m.incomplete);
    v("unit", m.unit);
    v("exclude", m.exclude);
    v("trigger_touch", m.trigger_touch);
}
template <class V>
void fields(V& v, Of<OutputSpec> auto& m) {
    v.need("from", m.from);
    v("to", m.to);
}
template <class V>
void fields(V& v, Of<RegistryAccess> auto& m) {
    v.need("server", m.server);
    v("username", m.username);
    v("password", m.password);
}
template <class V>
void fields(V& v, Of<Lease> auto& m) {
    v.need("attempt", m.attempt);
    v.need("number", m.number);
    v.need("job", m.job);
    v.need("task", m.task);
    v("task_index", m.task_index);
    v("task_count", m.task_count);
    v("image", m.image);
    v("container", m.container);
    v("registry", m.registry);
    v("shm_bytes", m.shm_bytes);
    v.need("run", m.run);
    v("env", m.env);
    v("secret_env", m.secret_env);
    v("user", m.user);
    v("keep_entrypoint", m.keep_entrypoint);
    v("code_sha256", m.code_sha256);
    v("checkpoint", m.checkpoint);
    v("checkpoint_every_ms", m.checkpoint_every_ms);
    v("generation", m.generation);
    v("step", m.step);
    v("outputs", m.outputs);
    v("progress_regex", m.progress_regex);
    v("progress_file", m.progress_file);
    v("success_exit", m.success_exit);
    v("success_product", m.success_product);
    v("duration_ms", m.duration_ms);
    v("dead_man_ms", m.dead_man_ms);
    v("log_bytes_max", m.log_bytes_max);
}
template <class V>
void fields(V& v, Of<Stop> auto& m) {
    v.need("attempt", m.attempt);
    v("reason", m.reason);
    v("checkpoint", m.checkpoint);
}
template <class V>
void fields(V& v, Of<CheckpointNow> auto& m) {
    v.need("attempt", m.attempt);
}
template <class V>
void fields(V& v, Of<Drain> auto& m) {
    v("reason", m.reason);
}

class Writer {
 public:
    explicit Writer(Json& out) : out_(out) {}
    template <class T>
    void operator()(const char* key, const T& value) {
        put(out_[key], value);
    }
    template <class T>
    void operator()(const char* key, const std::optional<T>& value) {
        if (value) put(out_[key], *value);
    }
    template <class T>
    void need(const char* key, const T& value) {
        put(out_[key], value);
    }

 private:
    template <class T>
    static void put(Json& to, const T& value) {
        if constexpr (std::is_same_v<T, Millis>) {
            to = value.count();
        } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string> ||
                             std::is_same_v<T, std::map<std::string, std::string>>) {
            to = value;
        } else {
            to = Json::object();
            Writer nested(to);
            fields(nested, value);
        }
    }
    template <class T>
    static void put(Json& to, const std::vector<T>& values) {
        to = Json::array();
        for (const auto& value : values) put(to.emplace_back(), value);
    }

    Json& out_;
};

class Reader {
 public:
    Reader(const Json& in, std::string path, std::optional<Error>& error)
        : in_(in), path_(std::move(path)), error_(error) {}

    template <class T>
    void operator()(const char* key, T& value) {
        const auto it = in_.find(key);
        if (it == in_.end() || it->is_null()) return;
        get(*it, path_ + key, value);
    }
    template <class T>
    void operator()(const char* key, std::optional<T>& value) {
        const auto it = in_.find(key);
        if (it == in_.end() || it->is_null()) return;
        get(*it, path_ + key, value.emplace());
    }
    template <class T>
    void need(const char* key, T& value) {
        const auto it = in_.find(key);
        if (it == in_.end() || it->is_null()) return wrong(path_ + key, "is missing");
        get(*it, path_ + key, value);
    }

 private:
    void wrong(const std::string& field, const char* what) {
        if (error_) return;  // the first one is the cause
        error_ = Error{.kind = ErrorKind::malformed, .message = "agent message: " + field + " " + what, .field = field};
    }
    void get(const Json& from, const std::string& field, std::string& value) {
        if (!from.is_string()) return wrong(field, "is not a text");
        value = from.get_ref<const std::string&>();
    }
    void get(const Json& from, const std::string& field, bool& value) {
        if (!from.is_boolean()) return wrong(field, "is not true or false");
        value = from.get<bool>();
    }
    void get(const Json& from, const std::string& field, double& value) {
        if (!from.is_number()) return wrong(field, "is not a number");
        const auto read = from.get<double>();
        if (!std::isfinite(read)) return wrong(field, "is not a finite number");
        value = read;
    }
    void get(const Json& from, const std::string& field, std::int64_t& value) {
        if (from.is_number_unsigned()) {
            const auto read = from.get<std::uint64_t>();
            if (read > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
                return wrong(field, "is out of range");
            value = static_cast<std::int64_t>(read);
        } else if (from.is_number_integer()) {
            value = from.get<std::int64_t>();
        } else {
            wrong(field, "is not an integer");
        }
    }
    void get(const Json& from, const std::string& field, int& value) {
        std::int64_t wide = value;
        get(from, field, wide);
        if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max())
            return wrong(field, "is out of range");
        value = static_cast<int>(wide);
    }
    void get(const Json& from, const std::string& field, Millis& value) {
        std::int64_t count = 0;
        get(from, field, count);
        value = Millis{count};
    }
    void get(const Json& from, const std::string& field, std::map<std::string, std::string>& value) {
        if (!from.is_object()) return wrong(field, "is not an object");
        value.clear();
        for (const auto& [key, text] : from.items()) get(text, field + "." + key, value[key]);
    }
    template <class T>
    void get(const Json& from, const std::string& field, std::vector<T>& values) {
        if (!from.is_array()) return wrong(field, "is not a list");
        values.clear();
        values.reserve(from.size());
        for (std::size_t i = 0; i < from.size(); ++i)
            get(from[i], field + "[" + std::to_string(i) + "]", values.emplace_back());
    }
    template <class T>
    void get(const Json& from, const std::string& field, T& value) {
        if (!from.is_object()) return wrong(field, "is not an object");
        Reader nested(from, field + ".", error_);
        fields(nested, value);
    }

    const Json& in_;
    std::string path_;
    std::optional<Error>& error_;
};

template <class T>
struct TypeName;
#define GF_MESSAGE_TYPE(Type, name)                          \
    template <>                                              \
    struct TypeName<Type> {                                  \
        static constexpr std::string_view value = name;      \
    }
GF_MESSAGE_TYPE(Hello, "hello");
GF_MESSAGE_TYPE(Heartbeat, "heartbeat");
GF_MESSAGE_TYPE(Preparing, "preparing");
GF_MESSAGE_TYPE(Started, "started");
GF_MESSAGE_TYPE(Exited, "exited");
GF_MESSAGE_TYPE(Progress, "progress");
GF_MESSAGE_TYPE(Notice, "notice");
GF_MESSAGE_TYPE(Welcome, "welcome");
GF_MESSAGE_TYPE(Ack, "ack");
GF_MESSAGE_TYPE(Lease, "lease");
GF_MESSAGE_TYPE(Stop, "stop");
GF_MESSAGE_TYPE(CheckpointNow, "checkpoint_now");
GF_MESSAGE_TYPE(Drain, "drain");
#undef GF_MESSAGE_TYPE

// A log line or a hostname may hold bytes that are not UTF-8; they are replaced, because a message that cannot be
// sent would be kept and tried for ever.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <class M>
std::string encode_plain(const M& m) {
    Json json = Json::object();
    Writer writer(json);
    fields(writer, m);
    return dump(json);
}

template <class Variant>
void put_body(Json& json, const Variant& variant) {
    std::visit(
        [&json]<class M>(const M& m) {
            json["type"] = TypeName<M>::value;
            Json& body = json["body"] = Json::object();
            Writer writer(body);
            fields(writer, m);
        },
        variant);
}

Result<Json> parse(std::string_view text) {
    if (text.size() > kMessageBytesMax)
        return fail(ErrorKind::malformed, "agent message: " + std::to_string(text.size()) + " bytes, at most " +
                                              std::to_string(kMessageBytesMax) + " are read");
    Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) return fail(ErrorKind::malformed, "agent message: not JSON");
    if (!json.is_object()) return fail(ErrorKind::malformed, "agent message: not an object");
    return json;
}

template <class M>
Result<M> decode_plain(std::string_view text) {
    auto json = parse(text);
    if (!json) return fail(std::move(json).error());
    std::optional<Error> error;
    M m;
    Reader reader(*json, "", error);
    fields(reader, m);
    if (error) return fail(*std::move(error));
    return m;
}

template <class Variant, std::size_t I = 0>
bool read_body(std::string_view type, const Json& body, Variant& out, std::optional<Error>& error) {
    if constexpr (I == std::variant_size_v<Variant>) {
        return false;
    } else {
        using M = std::variant_alternative_t<I, Variant>;
        if (TypeName<M>::value != type) return read_body<Variant, I + 1>(type, body, out, error);
        Reader reader(body, std::string(type) + ".", error);
        fields(reader, out.template emplace<M>());
        return true;
    }
}

/// Reads `type` and `body` of a message into `out`.
template <class Variant>
std::optional<Error> decode_body(const Json& json, Variant& out) {
    const auto type = json.find("type");
    if (type == json.end() || !type->is_string())
        return Error{.kind = ErrorKind::malformed, .message = "agent message: type is missing", .field = "type"};
    const auto body = json.find("body");
    if (body == json.end() || !body->is_object())
        return Error{.kind = ErrorKind::malformed, .message = "agent message: body is missing", .field = "body"};
    std::optional<Error> error;
    const auto& name = type->get_ref<const std::string&>();
    if (!read_body(name, *body, out, error))
        return Error{.kind = ErrorKind::not_yet, .message = "agent message: unknown type " + name, .field = "type"};
    return error;
}

struct Envelope {
    std::string boot_id;
    std::int64_t seq{0};
};
template <class V>
void fields(V& v, Of<Envelope> auto& m) {
    v.need("boot_id", m.boot_id);
    v.need("seq", m.seq);
}

}  // namespace

std::string encode(const EnrolRequest& m) { return encode_plain(m); }
std::string encode(const EnrolAnswer& m) { return encode_plain(m); }

std::string encode(const FromAgent& m) {
    Json json = Json::object();
    json["boot_id"] = m.boot_id;
    json["seq"] = m.seq;
    put_body(json, m.body);
    return dump(json);
}

std::string encode(const ToAgent& m) {
    Json json = Json::object();
    put_body(json, m);
    return dump(json);
}

Result<EnrolRequest> decode_enrol_request(std::string_view json) { return decode_plain<EnrolRequest>(json); }
Result<EnrolAnswer> decode_enrol_answer(std::string_view json) { return decode_plain<EnrolAnswer>(json); }

Result<FromAgent> decode_from_agent(std::string_view text) {
    auto json = parse(text);
    if (!json) return fail(std::move(json).error());
    std::optional<Error> error;
    Envelope envelope;
    Reader reader(*json, "", error);
    fields(reader, envelope);
    if (error) return fail(*std::move(error));
    FromAgent m{.boot_id = std::move(envelope.boot_id), .seq = envelope.seq, .body = {}};
    if (m.seq < 0)
        return fail(Error{.kind = ErrorKind::malformed, .message = "agent message: seq is negative", .field = "seq"});
    error = decode_body(*json, m.body);
    if (error) return fail(*std::move(error));
    return m;
}

Result<ToAgent> decode_to_agent(std::string_view text) {
    auto json = parse(text);
    if (!json) return fail(std::move(json).error());
    ToAgent m;
    auto error = decode_body(*json, m);
    if (error) return fail(*std::move(error));
    return m;
}

}  // namespace gf::agent_protocol
