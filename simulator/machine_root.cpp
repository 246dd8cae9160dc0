#include "simulator/machine_root.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace gf::sim {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void give_up(const std::string& what) {
    throw std::system_error(errno, std::generic_category(), what);
}

bool try_mount(const std::string& source, const std::string& target, const char* type, unsigned long flags,
               const std::string& options = {}) {
    return ::mount(source.c_str(), target.c_str(), type, flags,
                   options.empty() ? nullptr : options.c_str()) == 0;
}

void must_mount(const std::string& source, const std::string& target, const char* type, unsigned long flags,
                const std::string& options = {}) {
    if (!try_mount(source, target, type, flags, options)) give_up("mount " + source + " on " + target);
}

void make_dir(const fs::path& path, mode_t mode = 0755) {
    std::error_code ignored;
    fs::create_directories(path, ignored);
    if (!fs::is_directory(path, ignored)) throw std::runtime_error("cannot make " + path.string());
    ::chmod(path.c_str(), mode);
}

void touch(const fs::path& path) {
    make_dir(path.parent_path());
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) give_up("make " + path.string());
    ::close(fd);
}

void bind_over(const std::string& source, const fs::path& target, bool read_only) {
    std::error_code ignored;
    if (fs::is_directory(source, ignored)) {
        make_dir(target);
    } else {
        touch(target);
    }
    must_mount(source, target, nullptr, MS_BIND | MS_REC);
    if (!read_only) return;
    // Flags that the source's mount has are locked inside a user namespace: they must be repeated.
    unsigned long flags = MS_BIND | MS_REMOUNT | MS_RDONLY;
    struct statvfs facts{};
    if (::statvfs(target.c_str(), &facts) == 0) {
        if ((facts.f_flag & ST_NOSUID) != 0) flags |= MS_NOSUID;
        if ((facts.f_flag & ST_NODEV) != 0) flags |= MS_NODEV;
        if ((facts.f_flag & ST_NOEXEC) != 0) flags |= MS_NOEXEC;
    }
    must_mount("none", target, nullptr, flags);
}

/// A folder as an open descriptor's path: overlay options cannot carry ':' and ',' of a real path.
std::string by_descriptor(const fs::path& folder) {
    const int fd = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) give_up("open " + folder.string());
    return "/proc/self/fd/" + std::to_string(fd);
}

/// Lays `layers` (top first, empty ones skipped) under a writable upper folder on the machine's disk.
bool overlay(const std::vector<fs::path>& layers, const fs::path& target, const fs::path& disk,
             const char* name, bool user_namespace) {
    make_dir(disk / (std::string{"up-"} + name));
    make_dir(disk / (std::string{"work-"} + name));
    make_dir(target);
    std::string options = "index=off,lowerdir=";
    bool first = true;
    for (const auto& layer : layers) {
        std::error_code ignored;
        if (layer.empty() || !fs::is_directory(layer, ignored)) continue;
        options += (first ? "" : ":") + by_descriptor(layer);
        first = false;
    }
    options += ",upperdir=" + by_descriptor(disk / (std::string{"up-"} + name)) +
               ",workdir=" + by_descriptor(disk / (std::string{"work-"} + name));
    if (user_namespace) options += ",userxattr";
    return try_mount("overlay", target, "overlay", 0, options);
}

void write_file(const fs::path& path, const std::string& content) {
    std::error_code ignored;
    make_dir(path.parent_path());
    if (fs::is_symlink(path, ignored)) fs::remove(path, ignored);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

void copy_if_there(const fs::path& from, const fs::path& to) {
    std::error_code ignored;
    make_dir(to.parent_path());
    if (fs::exists(to, ignored) || fs::is_symlink(to, ignored)) return;
    if (fs::is_symlink(from, ignored) && !fs::is_directory(from, ignored)) {
        fs::copy(from, to, fs::copy_options::none, ignored);
    } else if (fs::is_regular_file(from, ignored)) {
        fs::copy_file(from, to, ignored);
    }
}

/// A root around the host's /usr: enough of /etc for a C library, certificates and Python, and nothing of the
/// host's own configuration, users or keys.
void host_skeleton(const fs::path& root) {
    for (const auto* name : {"bin", "sbin", "lib", "lib32", "lib64", "libx32"}) {
        const fs::path host = fs::path{"/"} / name;
        std::error_code ignored;
        if (fs::is_symlink(host, ignored)) {
            if (!fs::is_symlink(root / name, ignored)) fs::copy_symlink(host, root / name, ignored);
        } else if (fs::is_directory(host, ignored)) {
            bind_over(host, root / name, true);
        }
    }
    constexpr std::array kFiles{"ld.so.cache", "ld.so.conf",     "nsswitch.conf", "resolv.conf",
                                "localtime",   "mime.types",     "services",      "protocols",
                                "host.conf",   "debian_version", "os-release",    "profile",
                                "bash.bashrc", "ssl/openssl.cnf"};
    for (const auto* file : kFiles) copy_if_there(fs::path{"/etc"} / file, root / "etc" / file);
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/etc", ignored)) {
        const auto name = entry.path().filename().string();
        const bool wanted = name == "alternatives" || name == "ld.so.conf.d" || name == "ca-certificates" ||
                            name == "perl" || name.starts_with("python3");
        if (wanted && entry.is_directory(ignored)) bind_over(entry.path(), root / "etc" / name, true);
    }
    if (fs::is_directory("/etc/ssl/certs", ignored))
        bind_over("/etc/ssl/certs", root / "etc/ssl/certs", true);
    if (!fs::exists(root / "etc/passwd", ignored)) {
        const std::string shell = fs::exists("/bin/bash", ignored) ? "/bin/bash" : "/bin/sh";
        write_file(root / "etc/passwd", "root:x:0:0:root:/root:" + shell +
                                            "\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                                            "user:x:1000:1000:user:/home/user:/bin/sh\n"
                                            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
        write_file(root / "etc/group", "root:x:0:\ndaemon:x:1:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n");
    }
}

void common_folders(const fs::path& root) {
    make_dir(root / "tmp", 01777);
    make_dir(root / "var/tmp", 01777);
    make_dir(root / "root", 0700);
    for (const auto* name : {"proc", "sys", "dev", "run", "etc", "home", "mnt", "opt", "srv", "workspace",
                             "var/log", "var/lib", "var/cache"}) {
        make_dir(root / name);
    }
}

void docker_files(const fs::path& root, const std::string& hostname) {
    write_file(root / "etc/hostname", hostname + "\n");
    write_file(root / "etc/hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost\n127.0.1.1\t" + hostname + "\n");
    std::ifstream resolver("/etc/resolv.conf");
    write_file(root / "etc/resolv.conf", std::string{std::istreambuf_iterator<char>(resolver), {}});
}

void devices(const fs::path& root, bool user_namespace) {
    const fs::path dev = root / "dev";
    must_mount("tmpfs", dev, "tmpfs", MS_NOSUID, "mode=755,size=64k");
    for (const auto* name : {"null", "zero", "full", "random", "urandom", "tty"}) {
        touch(dev / name);
        must_mount(std::string{"/dev/"} + name, dev / name, nullptr, MS_BIND);
    }
    make_dir(dev / "shm", 01777);
    must_mount("shm", dev / "shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=1g");
    make_dir(dev / "pts");
    const char* options =
        user_namespace ? "newinstance,ptmxmode=0666,mode=620" : "newinstance,ptmxmode=0666,mode=620,gid=5";
    if (try_mount("devpts", dev / "pts", "devpts", MS_NOSUID | MS_NOEXEC, options)) {
        fs::create_symlink("pts/ptmx", dev / "ptmx");
    }
    fs::create_symlink("/proc/self/fd", dev / "fd");
    fs::create_symlink("/proc/self/fd/0", dev / "stdin");
    fs::create_symlink("/proc/self/fd/1", dev / "stdout");
    fs::create_symlink("/proc/self/fd/2", dev / "stderr");
}

void proc_and_sys(const fs::path& root) {
    const fs::path proc = root / "proc";
    if (!try_mount("proc", proc, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)) {
        // A container around us may mask /proc, and then a new one is refused; the outer one must do.
        must_mount("/proc", proc, nullptr, MS_BIND | MS_REC);
        return;
    }
    // root in the machine could otherwise set the host's kernel parameters.
    for (const auto* name : {"sys", "sysrq-trigger", "irq", "bus"}) {
        std::error_code ignored;
        if (fs::exists(proc / name, ignored)) bind_over(proc / name, proc / name, true);
    }
    try_mount("sysfs", root / "sys", "sysfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC);
}

void move_into(const fs::path& root) {
    if (::chdir(root.c_str()) != 0) give_up("enter the machine's root");
    if (::syscall(SYS_pivot_root, ".", ".") == 0) {
        // The old root is stacked on the new one: take it away.
        if (::umount2(".", MNT_DETACH) != 0) give_up("leave the host's root");
    } else if (::chroot(".") != 0) {
        give_up("chroot");
    }
    if (::chdir("/") != 0) give_up("enter /");
}

/// Where the container's writes go when no overlay can be mounted: folders of the disk over a read-only
/// image.
void read_only_image(const RootPlan& plan, const fs::path& root) {
    bind_over(plan.image_root, root, true);
    for (const auto* name : {"tmp", "root", "workspace", "run", "var/tmp", "mnt", "home"}) {
        std::error_code ignored;
        const auto own = fs::path{plan.disk} / "own" / name;
        make_dir(own, std::string_view{name}.ends_with("tmp") ? 01777 : 0755);
        if (fs::is_directory(root / name, ignored)) must_mount(own, root / name, nullptr, MS_BIND);
    }
}

}  // namespace

void place_files(const std::vector<RootPlan::File>& files, const std::string& root) {
    for (const auto& file : files) {
        const auto to = fs::path{root} / fs::path{file.path}.relative_path();
        make_dir(to.parent_path());
        std::error_code error;
        fs::remove(to, error);
        if (!fs::copy_file(file.from, to, fs::copy_options::overwrite_existing, error))
            throw std::runtime_error("cannot place " + file.path + ": " + error.message());
        ::chmod(to.c_str(), static_cast<mode_t>(file.mode));
    }
}

void mount_disk(const std::string& where, std::uint64_t bytes) {
    make_dir(where);
    must_mount("disk", where, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=" + std::to_string(bytes));
}

void enter_root(const RootPlan& plan) {
    const fs::path disk{plan.disk};
    const fs::path root = disk / "root";
    make_dir(root);
    if (plan.image_root.empty()) {
        must_mount(root, root, nullptr, MS_BIND);
        common_folders(root);
        host_skeleton(root);
        const auto cuda = plan.cuda_layer.empty() ? fs::path{} : fs::path{plan.cuda_layer} / "usr";
        const auto smi = plan.smi_layer.empty() ? fs::path{} : fs::path{plan.smi_layer} / "usr";
        if (!overlay({cuda, smi, "/usr"}, root / "usr", disk, "usr", plan.user_namespace)) {
            // No overlay here: the tools go where the image's PATH and LD_LIBRARY_PATH can still find them.
            bind_over("/usr", root / "usr", true);
            if (!smi.empty()) bind_over(smi / "bin", root / "opt/nvidia/bin", true);
            if (!plan.cuda_layer.empty()) {
                bind_over(fs::path{plan.cuda_layer} / "usr/local/nvidia/lib64", root / "opt/nvidia/lib64",
                          true);
            }
        }
    } else {
        if (!overlay({plan.cuda_layer, plan.smi_layer, plan.image_root}, root, disk, "root",
                     plan.user_namespace)) {
            read_only_image(plan, root);
        } else {
            common_folders(root);
        }
    }
    docker_files(root, plan.hostname);
    place_files(plan.files, root);
    if (!plan.facts.empty()) bind_over(plan.facts, root / "run/gpuferry-sim/gpus", true);
    for (const auto& [folder, path] : plan.volumes) {
        bind_over(folder, root / fs::path{path}.relative_path(), false);
    }
    proc_and_sys(root);
    devices(root, plan.user_namespace);
    move_into(root);
    if (::sethostname(plan.hostname.c_str(), std::min<std::size_t>(plan.hostname.size(), 64)) != 0) {
        give_up("set the host name");
    }
}

void drop_capabilities() {
    constexpr std::array kKept{CAP_CHOWN,   CAP_DAC_OVERRIDE, CAP_FSETID,           CAP_FOWNER,
                               CAP_MKNOD,   CAP_NET_RAW,      CAP_SETGID,           CAP_SETUID,
                               CAP_SETFCAP, CAP_SETPCAP,      CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT,
                               CAP_KILL,    CAP_AUDIT_WRITE};
    for (int capability = 0; capability < 64; ++capability) {
        if (std::ranges::find(kKept, capability) != kKept.end()) continue;
        ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    }
}

}  // namespace gf::sim
