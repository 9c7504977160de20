//! The repository's files: the release list, the publisher, kept bundles, and how generated files get there.
//!
//! Must not know what is generated.

use std::collections::BTreeMap;
use std::path::Path;

use oneagent_operator::api::package::Package;
use oneagent_operator::olm::catalog;
use oneagent_operator::olm::manifests::File;
use oneagent_operator::olm::publisher::{self, Publisher};
use oneagent_operator::olm::release::{self, Release, Released, Releases};

fn read(root: &Path, path: &str, what: &str) -> Result<String, String> {
    let path = root.join(path);
    std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {what} {}: {error}; name the repository with --root", path.display()))
}

/// The release list.
pub fn list(root: &Path) -> Result<Releases, String> {
    Releases::parse(&read(root, release::PATH, "the release list")?).map_err(|error| error.to_string())
}

/// The publisher.
pub fn publisher(root: &Path) -> Result<Publisher, String> {
    Publisher::parse(&read(root, publisher::PATH, "the publisher")?).map_err(|error| error.to_string())
}

/// The version of the code: the first that Cargo.toml names.
pub fn version(root: &Path) -> Result<String, String> {
    let text = read(root, "Cargo.toml", "the manifest")?;
    let named = text.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    named.map(str::to_owned).ok_or_else(|| "Cargo.toml has no line version = \"…\"".to_owned())
}

/// The release list as a file.
pub fn list_file(list: &Releases) -> Result<File, String> {
    let text = serde_yaml::to_string(list).map_err(|error| error.to_string())?;
    Ok(File { path: release::PATH.to_owned(), content: format!("{}{text}", release::HEAD) })
}

/// The path of a bundle's file within it.
#[must_use]
pub fn inside(package: &Package, file: &File) -> String {
    file.path.strip_prefix(&format!("{}/", catalog::folder(package))).unwrap_or(&file.path).to_owned()
}

/// The bundles of a package in the listed releases, as they were released or (`new`) are about to be.
pub fn bundles(
    root: &Path,
    publisher: &Publisher,
    package: &Package,
    list: &Releases,
    new: &[File],
) -> Result<Vec<Released>, String> {
    let of = |release: &Release| {
        let folder = Released::folder(package.name, &release.version);
        let within = |file: &File| {
            let path = file.path.strip_prefix(&format!("{folder}/"))?.to_owned();
            Some(File { path, content: file.content.clone() })
        };
        let mut files: Vec<File> = new.iter().filter_map(within).collect();
        if files.is_empty() {
            let paths = below(root, &folder)
                .map_err(|error| format!("the bundle of release {} is not in {folder}: {error}", release.version))?;
            for path in paths {
                let content = std::fs::read_to_string(root.join(&path)).map_err(|error| format!("{path}: {error}"))?;
                files.push(File { path: path[folder.len() + 1..].to_owned(), content });
            }
        }
        let bundle = Released { release: release.clone(), files, image: release.bundle_image(publisher, package) };
        match bundle.manifests("ClusterServiceVersion").as_slice() {
            [csv] if csv["spec"]["version"] == release.version.as_str() => Ok(bundle),
            _ => Err(format!("{folder} does not hold one CSV of version {}", release.version)),
        }
    };
    list.releases.iter().filter(|release| release.has(package)).map(of).collect()
}

/// Paths of all files below a folder of the repository, in a fixed order.
pub fn below(root: &Path, folder: &str) -> std::io::Result<Vec<String>> {
    let mut entries = BTreeMap::new();
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        entries.insert(format!("{folder}/{}", entry.file_name().to_string_lossy()), entry.path().is_dir());
    }
    let mut paths = Vec::new();
    for (path, is_folder) in entries {
        if is_folder {
            paths.extend(below(root, &path)?);
        } else {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Where a file differs from what it should be.
#[must_use]
pub fn difference(path: &Path, file: &File) -> Option<String> {
    let Ok(found) = std::fs::read_to_string(path) else { return Some(format!("  {} is missing", file.path)) };
    if found == file.content {
        return None;
    }
    let line = found.lines().zip(file.content.lines()).take_while(|(a, b)| a == b).count();
    let show = |text: &str| text.lines().nth(line).unwrap_or("(end of file)").to_owned();
    Some(format!("  {} line {}:\n    - {}\n    + {}", file.path, line + 1, show(&found), show(&file.content)))
}

/// Writes files below a folder.
pub fn write_all(root: &Path, files: &[File]) -> Result<(), String> {
    let write = |path: &Path, content: &str| {
        std::fs::create_dir_all(path.parent().unwrap_or(root))?;
        std::fs::write(path, content)
    };
    for file in files {
        let path = root.join(&file.path);
        write(&path, &file.content)
            .map_err(|error: std::io::Error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}
