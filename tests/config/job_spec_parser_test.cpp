#include "config/job_spec_parser.hpp"

#include <doctest/doctest.h>

#include <array>

#include "specs.hpp"

using namespace gf;
using gf::test::json;
using gf::test::where;
using gf::test::yaml;

namespace {

constexpr std::string_view kFullYaml = R"(name: sovits-finetune
kind: training
project: voices
image: ghcr.io/example/gpt-sovits:2.1
run: |
  python -s train.py --config s2.json
env: {BATCH: "8", ON: no, LEVEL: 007, EMPTY: ""}
user: root
entrypoint: replace
code: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
resources:
  gpu: [RTX 3090, rtx_4090]
  gpus: 2
  vram: 24GB
  cpus: 8
  memory: 32GB
  disk: 100GB
  arch: amd64
  cuda: ">=12.6"
  driver: ">=560"
  precision: bf16
  nvlink: true
  memory_bandwidth: 900GB/s
  inet_down: 200Mbps
  reliability: 0.98
  providers: [vastai, runpod]
  regions: [EU, us]
  spot: auto
  max_price: 0.80
checkpoint:
  path: ckpt
  every: 90s
  keep: 3
  signal: SIGUSR1
  signal_to: leader
  grace: 60s
  marker: trainer_state.json
  exclude: [runs/, "*.tmp"]
  unit: ["G_{n}.pth", "D_{n}.pth"]
  trigger: {touch: ckpt/save.now}
success: {exit: [0, 3], product: "out/*.ckpt"}
outputs: [{from: out}]
progress: {regex: 'step (\d+)/(\d+)'}
limits: {duration: 12h, wait: 2h}
retry: {spot_lost: 7, user_error: 1, gpu_oom: bigger_gpu}
priority: 70
)";

constexpr std::string_view kFullJson = R"json({"name":"sovits-finetune","kind":"training","project":"voices",
 "image":"ghcr.io/example/gpt-sovits:2.1","run":"python -s train.py --config s2.json\n",
 "env":{"BATCH":"8","ON":"no","LEVEL":"007","EMPTY":""},"user":"root","entrypoint":"replace",
 "code":"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
 "resources":{"gpu":["RTX 3090","rtx_4090"],"gpus":2,"vram":"24GB","cpus":8,"memory":"32GB","disk":"100GB","arch":"amd64",
  "cuda":">=12.6","driver":">=560","precision":"bf16","nvlink":true,"memory_bandwidth":"900GB/s","inet_down":"200Mbps",
  "reliability":0.98,"providers":["vastai","runpod"],"regions":["EU","us"],"spot":"auto","max_price":0.80},
 "checkpoint":{"path":"ckpt","every":"90s","keep":3,"signal":"SIGUSR1","signal_to":"leader","grace":"60s",
  "marker":"trainer_state.json","exclude":["runs/","*.tmp"],"unit":["G_{n}.pth","D_{n}.pth"],"trigger":{"touch":"ckpt/save.now"}},
 "success":{"exit":[0,3],"product":"out/*.ckpt"},"outputs":[{"from":"out"}],"progress":{"regex":"step (\\d+)/(\\d+)"},
 "limits":{"duration":"12h","wait":"2h"},"retry":{"spot_lost":7,"user_error":1,"gpu_oom":"bigger_gpu"},"priority":70})json";

void check_full(const JobSpec& s) {
    using Texts = std::vector<std::string>;
    CHECK(s.name == "sovits-finetune");
    CHECK(s.kind == JobKind::training);
    CHECK(s.project == "voices");
    CHECK(s.image == "ghcr.io/example/gpt-sovits:2.1");
    CHECK(s.run == "python -s train.py --config s2.json\n");
    CHECK(s.env ==
          std::map<std::string, std::string>{{"BATCH", "8"}, {"ON", "no"}, {"LEVEL", "007"}, {"EMPTY", ""}});
    CHECK(s.user == "root");
    CHECK(!s.keep_entrypoint);
    CHECK(s.code_sha256 == "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    const auto& r = s.resources;
    CHECK(r.gpu == Texts{"RTX-3090", "RTX-4090"});
    CHECK(r.gpu_as_typed == Texts{"RTX 3090", "rtx_4090"});
    CHECK(r.gpus == 2);
    CHECK(r.vram == VramDemand{.class_gb = 24, .exact = {}});
    CHECK(r.cpus == 8);
    CHECK(r.memory == Bytes{32 * kGB});
    CHECK(r.disk == Bytes{100 * kGB});
    CHECK(r.cuda == "12.6");
    CHECK(r.driver == "560");
    CHECK(r.precision == "bf16");
    CHECK(r.nvlink);
    CHECK(r.memory_bandwidth == Bytes{900 * kGB});
    CHECK(r.inet_down_mbps == 200);
    CHECK(r.reliability == 0.98);
    CHECK(r.providers == Texts{"vastai", "runpod"});
    CHECK(r.regions == Texts{"EU", "US"});
    CHECK(r.spot == SpotChoice::automatic);
    CHECK(r.max_price == UsdPerHour{800'000});
    const auto& c = s.checkpoint;
    CHECK(c.declared);
    CHECK(c.path == "ckpt");
    CHECK(c.every == Seconds{90});
    CHECK(c.keep == 3);
    CHECK(c.signal == "SIGUSR1");
    CHECK(c.signal_leader_only);
    CHECK(c.grace == Seconds{60});
    CHECK(c.marker == "trainer_state.json");
    CHECK(c.exclude == Texts{"runs/", "*.tmp"});
    CHECK(c.unit == Texts{"G_{n}.pth", "D_{n}.pth"});
    CHECK(c.trigger_touch == "ckpt/save.now");
    CHECK(s.success_exit == std::vector<int>{0, 3});
    CHECK(s.success_product == "out/*.ckpt");
    REQUIRE(s.outputs.size() == 1);
    CHECK(s.outputs[0].from == "out");
    CHECK(s.progress_regex == "step (\\d+)/(\\d+)");
    CHECK(s.limits.duration == std::chrono::hours{12});
    CHECK(s.limits.wait == std::chrono::hours{2});
    CHECK(s.retry.spot_lost == 7);
    CHECK(s.retry.host_fault == 5);
    CHECK(s.retry.user_error == 1);
    CHECK(s.retry.gpu_oom == 3);
    CHECK(s.retry.gpu_oom_bigger);
    CHECK(s.priority == 70);
}

/// A fragment under `resources:` (or the top) and where the error must be.
struct Bad {
    const char* yaml;
    const char* where;
    const char* message_has;
};

}  // namespace

TEST_CASE("YAML and JSON of one job mean the same") {
    const auto a = yaml(kFullYaml);
    REQUIRE_MESSAGE(a.has_value(), where(a));
    check_full(*a);
    const auto b = json(kFullJson);
    REQUIRE_MESSAGE(b.has_value(), where(b));
    check_full(*b);
}

TEST_CASE("a job of one line has the documented defaults") {
    const auto s = yaml("run: true\n");
    REQUIRE(s.has_value());
    CHECK(s->run == "true");
    CHECK(s->name == "job");
    CHECK(s->project == "default");
    CHECK(s->kind == JobKind::training);
    CHECK(s->resources.gpus == 1);
    CHECK(s->resources.disk == Bytes{20 * kGB});
    CHECK(s->resources.gpu.empty());
    CHECK(!s->checkpoint.declared);
    CHECK(s->priority == 50);
    CHECK(s->retry.spot_lost == 20);
    CHECK(s->retry.gpu_oom == 0);
    CHECK(s->success_exit == std::vector<int>{0});
    CHECK(yaml("run: x\nresources: {cpu_only: true}\n")->resources.gpus == 0);
    CHECK(yaml("run: x\nkind: batch_inference\n")->kind == JobKind::batch_inference);
    CHECK(yaml("run: x\ncheckpoint: {every: auto}\n")->checkpoint.every == std::nullopt);
    CHECK(yaml("run: x\nresources: {gpu: L4}\n")->resources.gpu == std::vector<std::string>{"L4"});
}

TEST_CASE("where each demand was written is kept") {
    const auto spec = yaml(kFullYaml);
    REQUIRE(spec.has_value());
    CHECK(spec->lines.at("resources") == 11);
    CHECK(spec->lines.at("resources.gpu") == 12);
    CHECK(spec->lines.at("resources.reliability") == 25);
    CHECK(!spec->lines.contains("resources.max_vram"));
    CHECK(!spec->lines.contains("env.BATCH"));
    const auto one_line = json(R"({"run":"x","resources":{"vram":"24GB"}})");
    REQUIRE(one_line.has_value());
    CHECK(one_line->lines.at("resources.vram") == 1);
}

TEST_CASE("text stays what was typed, whatever it looks like") {
    for (const auto* typed : {"no", "on", "NO", "yes", "1:30", "007", "1e-3", "0x1F", "true", "12.50",
                              "2026-11-30", ".inf", "1_000"}) {
        CAPTURE(std::string(typed));
        const auto s = yaml("run: x\nname: " + std::string(typed) + "\nenv: {V: " + typed + "}\n");
        REQUIRE(s.has_value());
        CHECK(s->name == typed);
        CHECK(s->env.at("V") == typed);
    }
    const auto s = json(R"({"run":"x","env":{"A":8,"B":1.50,"C":true,"D":1e-3}})");
    REQUIRE(s.has_value());
    CHECK(s->env ==
          std::map<std::string, std::string>{{"A", "8"}, {"B", "1.50"}, {"C", "true"}, {"D", "1e-3"}});
}

TEST_CASE("counts, prices and times out of range are refused with field and range") {
    const Bad table[] = {
        {"gpus: 0", "invalid resources.gpus 3:9",
         "an integer from 1 to 64, not 0; for work without a GPU write cpu_only: true"},
        {"gpus: -1", "invalid resources.gpus 3:9", "an integer from 1 to 64, not -1"},
        {"gpus: 1.5", "invalid resources.gpus 3:9", "an integer from 1 to 64"},
        {"gpus: 65", "invalid resources.gpus 3:9", "from 1 to 64"},
        {"gpus: 2147483648", "invalid resources.gpus 3:9", "from 1 to 64"},
        {"gpus: 4294967297", "invalid resources.gpus 3:9", "from 1 to 64"},
        {"gpus: 9223372036854775808", "invalid resources.gpus 3:9", "from 1 to 64"},
        {"gpus: 18446744073709551617", "invalid resources.gpus 3:9", "from 1 to 64"},
        {"gpus: two", "invalid resources.gpus 3:9", "not two"},
        {"gpus: \"2\"", "invalid resources.gpus 3:9", "no quotes"},
        {"gpus: 02", "invalid resources.gpus 3:9", "no leading zero"},
        {"gpus: +2", "invalid resources.gpus 3:9", "from 1 to 64"},
        {"gpus: 0x2", "invalid resources.gpus 3:9", "from 1 to 64"},
        {"gpus: 1e0", "invalid resources.gpus 3:9", "from 1 to 64"},
        {"gpus: 1e400", "invalid resources.gpus 3:9", "from 1 to 64"},
        {"gpus: null", "invalid resources.gpus 3:9", "not empty (null)"},
        {"gpus:", "invalid resources.gpus 3:3", "not empty (null)"},
        {"gpus: NaN", "invalid resources.gpus 3:9", "not NaN"},
        {"gpus: [1]", "invalid resources.gpus 3:9", "not a list of 1"},
        {"gpus: {a: 1}", "invalid resources.gpus 3:9", "not a mapping"},
        {"gpus: true", "invalid resources.gpus 3:9", "not true"},
        {"max_price: -1", "invalid resources.max_price 3:14", "dollars from 0.001 to 100000.00"},
        {"max_price: 0", "invalid resources.max_price 3:14", "dollars from 0.001"},
        {"max_price: inf", "invalid resources.max_price 3:14", "not inf"},
        {"max_price: .inf", "invalid resources.max_price 3:14", "not .inf"},
        {"max_price: NaN", "invalid resources.max_price 3:14", "dollars"},
        {"max_price: 1e400", "invalid resources.max_price 3:14", "dollars"},
        {"max_price: 1e-9", "invalid resources.max_price 3:14", "dollars"},
        {"max_price: 0.80 $", "invalid resources.max_price 3:14", "dollars"},
        {"nvlink: yes", "invalid resources.nvlink 3:11", "must be true or false, not yes"},
        {"nvlink: \"true\"", "invalid resources.nvlink 3:11", "not \"true\""},
        {"nvlink: 1", "invalid resources.nvlink 3:11", "true or false"},
        {"cpus: 0", "invalid resources.cpus 3:9", "from 1 to 1024"},
        {"memory: -1GB", "invalid resources.memory 3:11", "a size from 1.00 MB to 64.00 TB"},
        {"memory: 9999999TB", "invalid resources.memory 3:11", "a size from"},
        {"memory: lots", "invalid resources.memory 3:11", "a size"},
        {"disk: 0", "invalid resources.disk 3:9", "a size from 1.00 GB"},
        {"vram: 24", "invalid resources.vram 3:9", "memory per GPU from 1GB"},
        {"vram: 0GB", "invalid resources.vram 3:9", "memory per GPU"},
        {"vram: -24GB", "invalid resources.vram 3:9", "memory per GPU"},
        {"reliability: 1.01", "invalid resources.reliability 3:16", "a number from 0 to 1"},
        {"reliability: -0.1", "invalid resources.reliability 3:16", "a number from 0 to 1"},
        {"inet_down: 0Mbps", "invalid resources.inet_down 3:14", "200Mbps"},
        {"inet_down: 200", "invalid resources.inet_down 3:14", "200Mbps"},
        {"memory_bandwidth: 900GB", "invalid resources.memory_bandwidth 3:21", "900GB/s"},
        {"cuda: 12.6", "invalid resources.cuda 3:9", ">=12.6"},
        {"cuda: \">=\"", "invalid resources.cuda 3:9", ">=12.6"},
        {"cuda: \">=12.\"", "invalid resources.cuda 3:9", ">=12.6"},
        {"cuda: \"<12\"", "invalid resources.cuda 3:9", ">=12.6"},
        {"arch: x86", "invalid resources.arch 3:9", "one of amd64, arm64"},
        {"spot: maybe", "invalid resources.spot 3:9", "one of auto, always, never"},
        {"spot: alway", "invalid resources.spot 3:9", "did you mean \"always\""},
        {"precision: fp16", "invalid resources.precision 3:14", "bf16, fp8"},
        {"providers: [vast]", "invalid resources.providers[0] 3:15", "one of runpod, vastai"},
        {"regions: [EU, XX]", "invalid resources.regions[1] 3:17", "country code"},
        {"gpu: []", "invalid resources.gpu 3:8", "at least one GPU name"},
        {"gpu: [L4, A100-8]", "invalid resources.gpu[1] 3:13", "did you mean \"A100\""},
        {"gpu: H1000", "invalid resources.gpu 3:8", "did you mean \"H100\""},
        {"gpu: \"4090\"", "invalid resources.gpu 3:8", "\"RTX-4090\""},
        {"gpu: RTX409", "invalid resources.gpu 3:8", "is not a known GPU: \"RTX409\"; did you mean"},
    };
    for (const auto& row : table) {
        CAPTURE(std::string(row.yaml));
        const auto got = yaml("run: x\nresources:\n  " + std::string(row.yaml) + "\n");
        CHECK(where(got) == row.where);
        if (got) continue;
        CAPTURE(got.error().message);
        CHECK(got.error().message.find(row.message_has) != std::string::npos);
    }
}

TEST_CASE("JSON counts beyond every number are refused with field and range, not as broken JSON") {
    for (const auto* value : {"0", "-1", "1.5", "2147483648", "9223372036854775808", "\"two\"", "null",
                              "1e400", "-1e400", "[1]", "true"}) {
        CAPTURE(std::string(value));
        const auto got = json("{\"run\":\"x\",\"resources\":{\"gpus\":" + std::string(value) + "}}");
        REQUIRE(!got.has_value());
        CHECK(where(got) == "invalid resources.gpus 1:32");
        CHECK(got.error().message.find("from 1 to 64") != std::string::npos);
    }
    CHECK(where(json("{\"run\":\"x\",\"resources\":{\"gpus\":NaN}}")) == "malformed resources.gpus 1:32");
}

TEST_CASE("other keys out of their range") {
    const Bad table[] = {
        {"limits: {duration: 0}", "invalid limits.duration 2:20", "a duration from 1s to 366d"},
        {"limits: {duration: -5}", "invalid limits.duration 2:20", "a duration"},
        {"limits: {duration: 0s}", "invalid limits.duration 2:20", "a duration"},
        {"limits: {duration: 12}", "invalid limits.duration 2:20", "a duration"},
        {"limits: {duration: 99999999999999d}", "invalid limits.duration 2:20", "a duration"},
        {"limits: {wait: 31d}", "invalid limits.wait 2:16", "1s to 30d"},
        {"priority: 101", "invalid priority 2:11", "from 0 to 100"},
        {"checkpoint: {keep: 0}", "invalid checkpoint.keep 2:20", "from 1 to 1000"},
        {"checkpoint: {every: 500ms}", "invalid checkpoint.every 2:21", "auto, or a duration from 1s"},
        {"checkpoint: {grace: 2h}", "invalid checkpoint.grace 2:21", "from 0s to 1h"},
        {"checkpoint: {signal: SIGKILL}", "invalid checkpoint.signal 2:22", "one of SIGTERM"},
        {"checkpoint: {path: /etc}", "invalid checkpoint.path 2:20", "a path inside the job's folder"},
        {"checkpoint: {path: a/../../b}", "invalid checkpoint.path 2:20", "a path inside"},
        {"checkpoint: {path: ..}", "invalid checkpoint.path 2:20", "a path inside"},
        {"checkpoint: {marker: a/b}", "invalid checkpoint.marker 2:22", "the name of a file"},
        {"checkpoint: ckpt", "invalid checkpoint 2:13", "a mapping of keys"},
        {"outputs: [{}]", "invalid outputs[0] 2:11", "needs from"},
        {"outputs: [{from: ../x}]", "invalid outputs[0].from 2:18", "a path inside"},
        {"outputs: out", "invalid outputs 2:10", "a list of {from: FOLDER}"},
        {"outputs: [out]", "invalid outputs[0] 2:11", "a mapping"},
        {"success: {exit: [256]}", "invalid success.exit[0] 2:18", "from 0 to 255"},
        {"success: {exit: []}", "invalid success.exit 2:17", "at least one"},
        {"retry: {spot_lost: -1}", "invalid retry.spot_lost 2:20", "from 0 to 1000"},
        {"retry: {gpu_oom: 3}", "invalid retry.gpu_oom 2:18", "one of never, bigger_gpu"},
        {"progress: {regex: '('}", "invalid progress.regex 2:19", "is not a regular expression"},
        {"progress: {regex: 'step'}", "invalid progress.regex 2:19", "one or two groups"},
        {"kind: interactive", "invalid kind 2:7", "one of training, batch_inference"},
        {"image: \"a b\"", "invalid image 2:8", "an image such as"},
        {"image: -rf", "invalid image 2:8", "an image such as"},
        {"user: \"root; id\"", "invalid user 2:7", "a user name"},
        {"code: .", "invalid code 2:7", "sha256: and 64 hex digits"},
        {"code: sha256:abc", "invalid code 2:7", "sha256: and 64 hex digits"},
        {"env: {1A: x}", "invalid env.1A 2:7", "letters, digits and _"},
        {"env: {\"A=B\": x}", "invalid env.A=B 2:7", "letters, digits and _"},
        {"env: {GPUFERRY_URL: x}", "invalid env.GPUFERRY_URL 2:7", "set by gpuferry itself"},
        {"env: {A: [1]}", "invalid env.A 2:10", "a text"},
        {"env: {A: null}", "invalid env.A 2:10", "in quotes if it is the word null"},
        {"env: [A]", "invalid env 2:6", "a mapping"},
        {"resources: {cpu_only: true, gpus: 1}", "invalid resources.cpu_only 2:23",
         "excludes resources.gpus"},
        {"resources: {cpu_only: true, gpu: L4}", "invalid resources.cpu_only 2:23", "excludes resources.gpu"},
        {"resources: {cpu_only: true, vram: 8GB}", "invalid resources.cpu_only 2:23",
         "excludes resources.vram"},
    };
    for (const auto& row : table) {
        CAPTURE(std::string(row.yaml));
        const auto got = yaml("run: x\n" + std::string(row.yaml) + "\n");
        CHECK(where(got) == row.where);
        if (got) continue;
        CAPTURE(got.error().message);
        CHECK(got.error().message.find(row.message_has) != std::string::npos);
    }
}

TEST_CASE("secrets are named, never given") {
    const auto got = yaml("run: x\nimage: ghcr.io/a/b:1\nsecrets: [HF_TOKEN, B]\nimage_auth: {username: bot, password: REGISTRY_TOKEN}\n");
    REQUIRE(got.has_value());
    CHECK(got->secrets == std::vector<std::string>{"HF_TOKEN", "B"});
    CHECK(!got->secrets_on_any);
    REQUIRE(got->image_auth.has_value());
    CHECK(got->image_auth->username == "bot");
    CHECK(got->image_auth->password_secret == "REGISTRY_TOKEN");
    CHECK(yaml("run: x\nsecrets: HF_TOKEN\n")->secrets == std::vector<std::string>{"HF_TOKEN"});
    CHECK(yaml("run: x\nsecrets_on: any\n")->secrets_on_any);
    CHECK(!yaml("run: x\nsecrets_on: verified\n")->secrets_on_any);
    CHECK(json(R"({"run":"x","secrets":["A"],"secrets_on":"any"})")->secrets_on_any);
    const Bad table[] = {
        {"secrets: [hf_EXAMPLE0000]", "invalid secrets[0] 2:11", "the name of a secret"},
        {"secrets: [A, \"B C\"]", "invalid secrets[1] 2:14", "never its value"},
        {"secrets: [A, B, A]", "invalid secrets[2] 2:17", "is there twice"},
        {"secrets: [GPUFERRY_X]", "invalid secrets[0] 2:11", "not starting with a digit or with GPUFERRY_"},
        {"secrets: {A: hf_EXAMPLE0000}", "invalid secrets 2:10", "a list of at most 32 items"},
        {"secrets: [[A]]", "invalid secrets[0] 2:11", "the name of a secret"},
        {"secrets: [null]", "invalid secrets[0] 2:11", "the name of a secret"},
        {"secrets: [A]\nenv: {A: x}", "invalid secrets[0] 2:11", "A is in env too"},
        {"env: {B: x}\nsecrets: [A, B]", "invalid secrets[1] 3:14", "B is in env too"},
        {"secrets_on: all", "invalid secrets_on 2:13", "one of verified, any"},
        {"secrets_on: [any]", "invalid secrets_on 2:13", "one of verified, any"},
        {"image_auth: {username: a, password: B}", "invalid image_auth 2:13", "there is none"},
        {"image: i\nimage_auth: {username: a}", "invalid image_auth 3:13", "needs username"},
        {"image: i\nimage_auth: {password: B}", "invalid image_auth 3:13", "needs username"},
        {"image: i\nimage_auth: {username: a, password: hf_EXAMPLE0000}", "invalid image_auth.password 3:37", "the name of a secret"},
        {"image: i\nimage_auth: {username: \"a b\", password: B}", "invalid image_auth.username 3:24", "without blanks"},
        {"image: i\nimage_auth: {usrname: a, password: B}", "invalid image_auth.usrname 3:14", "did you mean \"username\"?"},
        {"image: i\nimage_auth: bot", "invalid image_auth 3:13", "a mapping"},
    };
    for (const auto& row : table) {
        CAPTURE(std::string(row.yaml));
        const auto bad = yaml("run: x\n" + std::string(row.yaml) + "\n");
        CHECK(where(bad) == row.where);
        if (bad) continue;
        CAPTURE(bad.error().message);
        CHECK(bad.error().message.find(row.message_has) != std::string::npos);
        // What was typed where a name belongs may be the secret itself.
        CHECK(bad.error().message.find("EXAMPLE") == std::string::npos);
    }
    std::string many = "run: x\nsecrets: [";
    for (int i = 0; i < 33; ++i) many += "A" + std::to_string(i) + ", ";
    CHECK(where(yaml(many + "]\n")) == "invalid secrets 2:10");
}

TEST_CASE("keys that are reserved are refused as not yet supported, never ignored") {
    for (const auto* line :
         {"array: 4", "entrypoint: keep", "after: job_x", "batch: {shards: 4}", "nodes: 2", "keep_warm: 10m",
          "limits: {budget: 10.00}", "limits: {deadline: 2026-12-01T08:00:00Z}",
          "resources: {shm: 16GB}",
          "outputs: [{from: out, to: s3://bucket/x}]", "inputs: [{from: s3://bucket/x, to: y}]",
          "idle: {job: 20m}", "resume_check: {regex: x}", "cache: [hf]",
          "progress: {file: log.jsonl}"}) {
        CAPTURE(std::string(line));
        const auto got = yaml("run: x\n" + std::string(line) + "\n");
        REQUIRE(!got.has_value());
        CHECK(got.error().kind == ErrorKind::not_yet);
        CHECK(got.error().message.find("not yet supported") != std::string::npos);
        CHECK(got.error().line == 2);
        CHECK(!got.error().field.empty());
    }
}

TEST_CASE("unknown keys are named with a suggestion") {
    const Bad table[] = {
        {"gpuss: 1", "invalid gpuss 2:1", "unknown key \"gpuss\""},
        {"resources: {gpuss: 1}", "invalid resources.gpuss 2:13",
         "unknown key \"gpuss\" in resources; did you mean \"gpus\"?"},
        {"resources: {max-price: 1}", "invalid resources.max-price 2:13", "did you mean \"max_price\"?"},
        {"Name: x", "invalid Name 2:1", "did you mean \"name\"?"},
        {"checkpiont: {}", "invalid checkpiont 2:1", "did you mean \"checkpoint\"?"},
        {"zzzzzzzz: 1", "invalid zzzzzzzz 2:1", "unknown key \"zzzzzzzz\""},
        {"outputs: [{form: out}]", "invalid outputs[0].form 2:12", "did you mean \"from\"?"},
        {"\"\": 1", "invalid  2:1", "unknown key \"\""},
    };
    for (const auto& row : table) {
        CAPTURE(std::string(row.yaml));
        const auto got = yaml("run: x\n" + std::string(row.yaml) + "\n");
        CHECK(where(got) == row.where);
        if (got) continue;
        CAPTURE(got.error().message);
        CHECK(got.error().message.find(row.message_has) != std::string::npos);
    }
    CHECK(yaml("run: x\nzzzzzzzz: 1\n").error().message.find("did you mean") == std::string::npos);
    CHECK(yaml("run: x\n" + std::string(10'000, 'k') + ": 1\n").error().message.size() < 300);
}

TEST_CASE("names are kept byte for byte if they are UTF-8 without control characters") {
    const auto name_of = [](std::string_view quoted) {
        return json("{\"run\":\"x\",\"name\":\"" + std::string(quoted) + "\"}");
    };
    for (const auto* good : {"Обучение №1 🎤/..", "CON", " a ", "'; drop table jobs;--", "../../etc/passwd",
                             "A", "e\u0301", "名前"}) {
        CAPTURE(std::string(good));
        const auto got = name_of(good);
        REQUIRE(got.has_value());
        CHECK(got->name == good);
    }
    struct Row {
        const char* name;
        const char* why;
    };
    for (const auto& row : {Row{"Обучение №1 🎤/..\u202e", "control characters"}, Row{"a\\u0000b", "NUL"},
                            Row{"a\\nb", "control"}, Row{"a\\u0007", "control"}, Row{"a\\u0085", "control"},
                            Row{"a\u2066b", "control"}, Row{"", "1 to"}}) {
        CAPTURE(std::string(row.name));
        const auto got = name_of(row.name);
        REQUIRE(!got.has_value());
        CHECK(got.error().field == "name");
        CHECK(got.error().kind == ErrorKind::invalid);
        CHECK(got.error().message.find(row.why) != std::string::npos);
    }
    std::string longest;
    for (int i = 0; i < 200; ++i) longest += "🎤";
    CHECK(name_of(longest)->name == longest);
    CHECK(name_of(longest + "x").error().message.find("1 to 200 characters") != std::string::npos);
    CHECK(yaml("run: x\nname: ' a '\n")->name == " a ");
}

TEST_CASE("a body that cannot be read is malformed, one that is too large too") {
    CHECK(where(json("{\"resources\":{\"gpus\":1,\"gpus\":2},\"run\":\"x\"}")) == "malformed resources 1:24");
    CHECK(where(json(std::string(100'000, '['))).starts_with("malformed"));
    CHECK(where(yaml("run: x\n\xFF")) == "malformed  2:1");
    CHECK(where(json("\xEF\xBB\xBF{\"run\":\"x\"}")) == "malformed  1:1");
    CHECK(where(json("[]")) == "invalid  1:1");
    CHECK(where(json("\"run\"")) == "invalid  1:1");
    CHECK(where(yaml("just a text")) == "invalid  1:1");
    CHECK(where(json("{}")) == "invalid run 1:1");
    CHECK(where(json("{\"run\":\"\"}")) == "invalid run 1:8");
    const std::string large = "{\"run\":\"" + std::string(kSpecBytesMax, 'x') + "\"}";
    CHECK(json(large).error().kind == ErrorKind::malformed);
    CHECK(json(large).error().message.find("1048576") != std::string::npos);
    CHECK(json("{\"run\":\"" + std::string(65'536, 'x') + "\"}").has_value());
    CHECK(where(json("{\"run\":\"" + std::string(65'537, 'x') + "\"}")) == "invalid run 1:8");
}

TEST_CASE("all errors are told, in the order of the text, at most twenty") {
    const auto outcome =
        check_job_spec("gpuss: 1\nresources:\n  gpus: 0\n  spto: auto\nlimits: {budget: 1}\n",
                       SpecFormat::yaml, test::context());
    CHECK(!outcome.spec.has_value());
    std::vector<std::string> fields;
    for (const auto& e : outcome.errors) fields.push_back(e.field);
    CHECK(fields ==
          std::vector<std::string>{"run", "gpuss", "resources.gpus", "resources.spto", "limits.budget"});
    std::string many = "run: x\n";
    for (int i = 0; i < 1'000; ++i) many += "key" + std::to_string(i) + ": 1\n";
    CHECK(check_job_spec(many, SpecFormat::yaml, test::context()).errors.size() == 20);
    CHECK(check_job_spec("run: x\n", SpecFormat::yaml, test::context()).errors.empty());
}

TEST_CASE("the command line may leave code as a folder") {
    auto context = test::context();
    context.code_may_be_path = true;
    const auto got = parse_job_spec("run: x\ncode: ./src\n", SpecFormat::yaml, context);
    REQUIRE(got.has_value());
    CHECK(got->code_sha256.empty());
    CHECK(!parse_job_spec("run: x\ncode: sha256:12\n", SpecFormat::yaml, context).has_value());
}
