// Statements on machines and on the money that they cost. A function is one statement; all throw SqliteError.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "db/sqlite.hpp"
#include "model/records.hpp"

namespace gf::db {

void insert_machine(Connection& db, const MachineRecord& row);
void update_machine(Connection& db, const MachineRecord& row, MachineState was);
[[nodiscard]] std::optional<MachineRecord> machine_by_id(Connection& db, const MachineId& id);
/// Newest first; `cursor` is the last id of the page before.
[[nodiscard]] std::vector<MachineRecord> machine_page(Connection& db, bool with_gone, const std::string& cursor,
                                                      int limit);
/// Machines that are not gone, and those whose outcome is watched for good.
[[nodiscard]] std::vector<MachineRecord> live_machines(Connection& db);

void put_reservation(Connection& db, const ReservationRecord& row);
[[nodiscard]] std::vector<ReservationRecord> reservations_of_job(Connection& db, const JobId& job);
[[nodiscard]] std::vector<ReservationRecord> open_reservations(Connection& db);

void put_ledger(Connection& db, const LedgerRecord& row);
/// Intervals that overlap [from, to), oldest first.
[[nodiscard]] std::vector<LedgerRecord> ledger_in(Connection& db, Instant from, Instant to);
[[nodiscard]] std::vector<LedgerRecord> ledger_of_job(Connection& db, const JobId& job, Instant from, Instant to);
/// The last interval of each live machine, open or closed: the next one's number follows from it.
[[nodiscard]] std::vector<LedgerRecord> last_ledger_of_live(Connection& db);

}  // namespace gf::db
