// The provider port: everything the core may ask of a cloud or of this machine, and what each answer means.
//
// Every call blocks (network, bounded by the client's time-outs) and is made on a worker thread, never on the core's.
// An adapter never waits for a state and never retries a call that changes something; the core asks again. An adapter
// may be called from several threads at once and does its own pacing. Answers are values: nothing throws across here.
//
// Errors, and what the core does with them:
//   no_capacity      clean refusal: nothing was made. Offer cooled down, next offer.
//   refused          clean refusal, the request itself is wrong: the job fails with this message, no retry.
//   auth, no_money, quota, api_retired
//                    clean refusal: nothing was made. No further launches on this provider for a while; alert.
//   not_yet          of a create with a registry login: clean refusal, the provider does not take the login now, whatever
//                    the job. No further launches of private images there for a while; all others go on.
//   rate_limited     for reads: try again after `retry_after`. A create never returns it (DESIGN 6.1): see below.
//   unavailable, malformed
//                    for reads: the answer is "unknown"; nothing changes.
//   unknown_outcome  for create and destroy: it may have happened. A create returns it for everything that is not a
//                    white-listed clean refusal: 429, 5xx, time-outs, cut connections, bodies that do not parse.
//   not_found        never used to say that a machine is gone; `Presence::gone` is.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/enum_text.hpp"
#include "model/market.hpp"
#include "model/offer.hpp"
#include "model/result.hpp"
#include "model/secret.hpp"
#include "model/strong.hpp"
#include "providers/offer_query.hpp"

namespace gf {

/// Optional abilities, asked as data.
struct Capabilities {
    bool spot{false};             // has machines that can be taken back
    bool balance{false};          // `balance` gives a figure
    bool is_local{false};         // this machine: price 0 is allowed, never "lost to the market"
    bool listing_has_env{false};  // listings show our environment marks as well as the name
    bool per_disk_price{true};    // a stopped machine's disk is billed
    bool gpu_free_while_booting{false};  // GPUs are billed from running on, not from creation
    bool vm{false};                // a whole machine with its own sshd, not a container: the agent runs a job's image in docker there
    bool ssh{false};               // machines take our key and have a real sshd: a tunnel can stand in for advertise_url
    bool bids{false};              // `raise_bid` works
    bool charges{false};           // `charges` gives records
    bool search_per_count{false};  // each GPU count and kind costs a paced search of its own: ask for few at a time
};

/// When the prices of one GPU count and kind were read, where one call reads them at several times: the oldest search of it.
struct PriceRead {
    int gpu_count{1};
    bool spot{false};
    Instant at;
};

/// The provider's answers have changed their shape or their units: what is read from them may be wrong. Launching there stops
/// until answers are whole again; destroying, reading and listing go on.
struct Drift {
    std::string what;    // "price_unit", "memory_unit", "type_changed", "page_token_missing", …
    std::string detail;  // for people: which field, what was expected, what came
};

struct OfferList {
    std::vector<Offer> offers;
    std::vector<RejectedOffer> rejected;     // offers with an unusable price, memory, … and why
    std::vector<Drift> drift{};
    std::vector<PriceRead> reads{};          // empty = everything was read when the call began
    std::vector<MarketReach> reaches{};      // empty = all that was asked for is in it
};

struct RegistryLogin {
    std::string server;
    std::string username;
    Secret password;
};

/// What lets our ssh, and nobody else's, talk to a machine that boots with cloud-init: the public key that may log in, and the
/// key pair that its sshd must show, made by us so that the first connection is already to the right machine.
struct SshSetup {
    std::string client_public;  // "ssh-ed25519 AAAA…", one line
    Secret host_private;        // OpenSSH PEM
    std::string host_public;    // one line
};

/// One create call. `tag` goes into the name or label and, where the provider has it, into the environment as
/// GPUFERRY_MACHINE.
struct LaunchRequest {
    MachineTag tag;
    Offer offer;
    std::int64_t disk_gb{20};
    std::string image;                       // empty = the adapter's documented default image
    std::optional<UsdPerHour> bid;           // set exactly when offer.spot
    std::map<std::string, std::string> env;  // GPUFERRY_URL, _MACHINE, _ENROL, _PIN: nothing else travels
    std::string start_script;                // POSIX sh, at most 2,000 bytes; runs as the machine's main process
    std::optional<RegistryLogin> registry;   // never for `vm` providers: there the agent logs in
    std::optional<SshSetup> ssh;             // where Capabilities::ssh
};

/// What came of a create call. An id can come together with an error (a bid that was too low leaves a stopped,
/// billed machine): such a machine is destroyed before anything else.
struct LaunchOutcome {
    ProviderMachineId id;                    // empty = none was told
    std::optional<Error> error;              // absent = clean success
    std::optional<UsdPerHour> rate;          // all-in, when the answer shows it
};

enum class Presence : std::uint8_t {
    booting,      // exists, not yet running; may be billed in part
    running,
    stopped,      // exists, not running, disk billed: outbid, host stop, no money, or exited by itself
    failed,       // exists, will never run by itself (frozen, error, offline for good)
    gone,         // an authenticated read by id says that it does not exist
    unknown,      // the provider itself does not know, or the state text is not one we know
};
GF_ENUM_NAMES(Presence, {{E::booting, "booting"},
                         {E::running, "running"},
                         {E::stopped, "stopped"},
                         {E::failed, "failed"},
                         {E::gone, "gone"},
                         {E::unknown, "unknown"}});

/// Where a machine's sshd can be reached now; may change at any restart.
struct SshEndpoint {
    std::string host;
    int port{22};
    std::string user{"root"};
    friend bool operator==(const SshEndpoint&, const SshEndpoint&) = default;
};

/// A machine as the provider shows it. Absent = not told, never zero.
struct ProviderMachine {
    ProviderMachineId id;
    std::string tag;                         // name or label, byte for byte
    std::string env_tag;                     // GPUFERRY_MACHINE from its environment, if shown
    Presence presence{Presence::unknown};
    std::string raw_state;                   // the provider's words, for people; never secrets
    bool spot{false};
    std::optional<UsdPerHour> gpu_rate;      // what is billed now for the GPUs (0 while loading, where that is so)
    std::optional<UsdPerHour> disk_rate;     // what is billed now for the disk
    std::optional<int> gpu_count;
    std::optional<GpuIdentity> gpu;
    std::string region;
    std::string host_id;
    std::optional<Instant> created_at;
    std::optional<Instant> lease_end;
    std::string data_center;
    std::optional<UsdPerHour> spot_floor;    // lowest bid that would win now
    std::optional<SshEndpoint> ssh;          // absent = none yet, or none
    bool outbid{false};                      // the provider says so, or floor above our bid
    std::string image_fault;                 // the provider's words that the image, not the host, kept it from starting; empty = none
};

/// All machines of the account, ours and others'. Only a complete listing is ever returned: a failed page, a missing
/// array or an unexpected shape is an error.
struct Listing {
    std::vector<ProviderMachine> machines;
    std::vector<Drift> drift{};
};

/// One line of the provider's own books.
struct Charge {
    ProviderMachineId machine;
    std::string tag;  // name or label where the record has it; it may outlive the machine
    Instant from;
    Instant until;
    Usd amount;       // all lines together
};

/// One thing that `check` looked at.
struct Finding {
    enum class Level : std::uint8_t { ok, warning, failed };
    Level level{Level::ok};
    std::string what;  // "key", "scope", "money", "quota", "offers", "listing", "api"
    std::string text;  // plain words, and what to do; never a secret
};

class Provider {
 public:
    virtual ~Provider() = default;
    [[nodiscard]] virtual ProviderName name() const = 0;
    [[nodiscard]] virtual Capabilities capabilities() const = 0;
    /// Reads the market. May be partial in what it asks, never in what it answers for that. Idempotent.
    virtual Result<OfferList> offers(const OfferQuery& query) = 0;
    /// Exactly one create call on the wire. Not idempotent.
    virtual LaunchOutcome launch(const LaunchRequest& request) = 0;
    /// Every machine of the account, all pages. Idempotent. May lag behind a create (see the settle times).
    virtual Result<Listing> list() = 0;
    /// One machine by id. `Presence::gone` is proof, and needs an authenticated call that succeeded within 60 s on the
    /// same key where the provider answers wrong keys like missing machines. Idempotent.
    virtual Result<ProviderMachine> read(const ProviderMachineId& id) = 0;
    /// Asks for destruction; success means asked, not gone (a machine that is not there counts as asked). Idempotent.
    virtual Result<void> destroy(const ProviderMachineId& id) = 0;
    /// Prepaid money left. `not_found` where the provider has no such call.
    virtual Result<Usd> balance() = 0;

    // What not every provider has: the default answer is `not_yet`, and Capabilities says so beforehand.

    /// Gives the machine another name (the tag again, after somebody renamed it in a console). Idempotent.
    virtual Result<void> rename(const ProviderMachineId& id, const std::string& name);
    /// Sets a spot machine's bid. Idempotent.
    virtual Result<void> raise_bid(const ProviderMachineId& id, UsdPerHour bid);
    /// What the provider has billed for machines in [from, until). May lag by hours. Idempotent.
    virtual Result<std::vector<Charge>> charges(Instant from, Instant until);
    /// Read-only calls that tell whether this provider can be used: key, scope, money, quota, offers, listing. Never empty;
    /// each failure is a finding. Takes seconds.
    virtual std::vector<Finding> check();
    /// Removes what this installation has made at the provider beside machines and needs no more (a registered SSH key, a stored
    /// registry login). Called when no machine of ours is left there. Idempotent.
    virtual Result<void> tidy();
};

}  // namespace gf
