// A checkpoint store in a folder of the daemon.
//
//   <root>/<job>/a<attempt>/<pack sha256>.pack
//   <root>/<job>/manifests/<sha256>.json
//   <root>/<job>/seals/<task>.<generation, 12 digits>.json
//   <root>/<job>/quarantine/<sha256>.json, .why
//   anything named .tmp-*                    being written; removed at open
#pragma once
#include <filesystem>

#include "checkpoints/disk.hpp"
#include "checkpoints/store.hpp"

namespace gf::checkpoints {

class FileStore final : public CheckpointStore {
 public:
    /// Creates `root` (0700) if it is missing and removes what a killed daemon left half written. One process
    /// per root (the daemon's lock on its data folder sees to that). `disk` must outlive the store; null =
    /// Disk::real().
    static Result<std::unique_ptr<FileStore>> open(std::filesystem::path root, Disk* disk = nullptr);

    Result<std::unique_ptr<PackWriter>> begin_pack(const JobId& job, int attempt, const Digest& id) override;
    Result<std::int64_t> pack_size(const JobId& job, const PackKey& pack) override;
    Result<void> read_pack(const JobId& job, const PackKey& pack, std::int64_t offset, std::int64_t length,
                           std::string& out) override;
    Result<StoredManifest> put_manifest(const JobId& job, const TaskId& task, int attempt,
                                        std::string_view bytes) override;
    Result<std::string> get_manifest(const JobId& job, const Digest& digest) override;
    Result<std::vector<Digest>> list_manifests(const JobId& job) override;
    Result<std::vector<StoredPack>> list_packs(const JobId& job) override;
    Result<void> put_seal(const JobId& job, const Seal& seal) override;
    Result<std::vector<Seal>> list_seals(const JobId& job) override;
    Result<void> quarantine(const JobId& job, const Digest& manifest, std::string_view why) override;
    Result<std::vector<Digest>> list_quarantined(const JobId& job) override;
    Result<std::string> get_quarantined(const JobId& job, const Digest& digest) override;
    Result<void> remove_manifest(const JobId& job, const Digest& digest) override;
    Result<void> remove_pack(const JobId& job, const PackKey& pack) override;

    /// The file of a pack, for sendfile; `not_found` if it is not there.
    Result<std::filesystem::path> pack_path(const JobId& job, const PackKey& pack);
    /// Everything of a job, quarantine included; for a job that the user deleted.
    Result<void> remove_job(const JobId& job);

 private:
    FileStore(std::filesystem::path root, Disk& disk) : root_(std::move(root)), disk_(disk) {}
    Result<void> sweep();
    Result<std::filesystem::path> folder_of(const JobId& job, const std::string& name);
    Result<void> make_durable_folder(const std::filesystem::path& parent, const std::string& name);
    Result<std::filesystem::path> make_folder(const JobId& job, const std::string& name);
    Result<void> write_durably(const std::filesystem::path& folder, const std::string& name,
                               std::string_view bytes);
    Result<void> move_durably(const std::filesystem::path& from, const std::filesystem::path& to);
    Result<std::vector<Digest>> list_named(const JobId& job, const std::string& folder);
    Result<std::string> read_manifest(const JobId& job, const std::string& folder, const Digest& digest);

    std::filesystem::path root_;
    Disk& disk_;
};

}  // namespace gf::checkpoints
