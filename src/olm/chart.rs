//! The Helm chart: the objects of `config/`, with what an administrator chooses as values.
//!
//! Pure. The CRD is one of the templates, so that an upgrade brings the newer one, and stays when the release is
//! uninstalled: with it every object of its kind would be deleted. Must not hold an object that the installation
//! without Helm has not.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::deployment::{self, Setting};
use super::manifests::{self, Error, File, kept, yaml};
use super::publisher::Publisher;
use super::rbac::rules;
use super::release::Release;
use crate::api::package::{Package, Where};
use crate::api::schema;

/// What Helm fills in.
const NAMESPACE: &str = "{{ .Release.Namespace }}";
const IMAGE: &str = "{{ .Values.image }}";
const WATCHED: &str = "{{ .Values.watchNamespaces | default (list .Release.Namespace) | join \",\" }}";
/// Marks where the content of a value is inserted.
const VALUE: &str = "VALUE-";

/// The chart of a package, in the release that the present code would be.
pub fn chart(package: &Package, publisher: &Publisher, release: &Release) -> Result<Vec<File>, Error> {
    let folder = format!("config/{}/chart", package.name);
    let file = |path: &str, content: String| File { path: format!("{folder}/{path}"), content };
    let rbac = manifests::rbac_objects(package, NAMESPACE).into_iter().chain(manifests::user_roles(package));
    let rbac: Vec<Value> = rbac.map(labelled).collect();
    let defaults = Defaults::of(package, release);
    let mut files = vec![
        file("Chart.yaml", yaml(&[about(package, publisher, release)?])?),
        file("values.yaml", defaults.text()?),
        file("values.schema.json", format!("{}\n", serde_json::to_string_pretty(&schema())?)),
        file("README.md", readme(package, publisher)),
        file("templates/NOTES.txt", notes(package)),
        file("templates/rbac.yaml", yaml(&rbac)?),
        file("templates/watched.yaml", watched(package)?),
        file("templates/deployment.yaml", deployment(package)?),
    ];
    for kind in package.kinds {
        let crd = labelled(kept(schema::crd(kind)?));
        files.push(file(&format!("templates/{}.yaml", kind.plural), yaml(&[crd])?));
    }
    files.push(File { path: format!("config/{}/artifacthub-repo.yml", package.name), content: hub(publisher)? });
    Ok(files)
}

/// With the labels that every object of a chart has.
fn labelled(mut object: Value) -> Value {
    let labels = &mut object["metadata"]["labels"];
    labels["app.kubernetes.io/instance"] = "{{ .Release.Name }}".into();
    labels["app.kubernetes.io/managed-by"] = "{{ .Release.Service }}".into();
    labels["helm.sh/chart"] = "{{ .Chart.Name }}-{{ .Chart.Version }}".into();
    object
}

fn about(package: &Package, publisher: &Publisher, release: &Release) -> Result<Value, Error> {
    let version =
        |kind: &crate::api::package::Kind| schema::crd(kind).map(|crd| crd["spec"]["versions"][0]["name"].clone());
    let crds = package.kinds.iter().map(|kind| {
        Ok(json!({ "kind": kind.name, "version": version(kind)?, "name": format!("{}.{}", kind.plural, kind.group),
            "displayName": kind.name, "description": package.texts.sentence }))
    });
    let crds: Vec<Value> = crds.collect::<Result<_, Error>>()?;
    let images = [json!({ "name": "manager", "image": release.image_of(package) })]
        .into_iter()
        .chain(package.image_variable.map(|_| json!({ "name": "agent", "image": release.agent_image })));
    let links = [
        json!({ "name": "Documentation", "url": publisher.page(package.docs) }),
        json!({ "name": "Support", "url": format!("{}/issues", publisher.repository) }),
    ];
    let category =
        if package.texts.categories.contains("Monitoring") { "monitoring-logging" } else { "integration-delivery" };
    let people = publisher.maintainers.iter().map(|one| json!({ "name": one.name, "email": one.email }));
    Ok(json!({
        "apiVersion": "v2", "name": package.name, "version": release.version, "appVersion": release.version,
        "type": "application", "description": package.texts.sentence, "home": publisher.repository,
        "icon": format!("{}/raw/main/src/olm/icon.svg", publisher.repository),
        "sources": [publisher.repository], "keywords": package.texts.keywords,
        "maintainers": people.collect::<Vec<_>>(),
        "kubeVersion": format!(">= {}-0", super::csv::MIN_KUBE),
        "annotations": {
            "artifacthub.io/category": category,
            "artifacthub.io/license": "Apache-2.0",
            "artifacthub.io/operator": "true",
            "artifacthub.io/operatorCapabilities": package.texts.capabilities.to_lowercase(),
            "artifacthub.io/prerelease": release.is_pre_release().to_string(),
            "artifacthub.io/images": serde_yaml::to_string(&images.collect::<Vec<_>>())?,
            "artifacthub.io/crds": serde_yaml::to_string(&crds)?,
            "artifacthub.io/links": serde_yaml::to_string(&links)?,
        },
    }))
}

/// Whose charts these are, as Artifact Hub wants to be told.
fn hub(publisher: &Publisher) -> Result<String, Error> {
    let owner = |one: &super::publisher::Maintainer| json!({ "name": one.name, "email": one.email });
    yaml(&[json!({ "owners": publisher.maintainers.iter().map(owner).collect::<Vec<_>>() })])
}

/// The values as they are without a word, with what they mean.
struct Defaults {
    /// Name, meaning, value.
    all: Vec<(&'static str, &'static str, Value)>,
}

impl Defaults {
    fn of(package: &Package, release: &Release) -> Self {
        let deployment = deployment::deployment(package, &Setting { namespace: "", image: "", watched: json!({}) });
        let pod = &deployment["spec"]["template"]["spec"];
        let all = vec![
            ("image", "Image of the operator.", release.image_of(package).into()),
            ("imagePullSecrets", "Secrets for a registry with a login, such as { name: registry-login }.", json!([])),
            (
                "watchNamespaces",
                "Namespaces that it watches, and gets its rights in; none: the release's own.",
                json!([]),
            ),
            (
                "env",
                "More variables of the operator, such as { name: POLL_INTERVAL, value: 5m }; `run --help` lists them.",
                json!([]),
            ),
            ("resources", "Requests and limits of the operator.", pod["containers"][0]["resources"].clone()),
            ("affinity", "Where the operator's Pod runs: on what its image is built for.", pod["affinity"].clone()),
            ("nodeSelector", "", json!({})),
            ("tolerations", "", pod.get("tolerations").cloned().unwrap_or_else(|| json!([]))),
            ("priorityClassName", "", "".into()),
            ("podAnnotations", "Annotations of the operator's Pod, beside its own.", json!({})),
        ];
        Self { all }
    }

    fn text(&self) -> Result<String, Error> {
        let mut text = String::from("# Generated by `make generate`; do not edit.\n");
        for (name, about, value) in &self.all {
            if !about.is_empty() {
                let _ = writeln!(text, "# {about}");
            }
            text.push_str(&serde_yaml::to_string(&json!({ *name: value }))?);
        }
        Ok(text)
    }
}

/// What values may be; a misspelled name is refused.
fn schema() -> Value {
    let list = |items: Value| json!({ "type": "array", "items": items });
    let object = json!({ "type": "object" });
    let text = json!({ "type": "string" });
    let named = json!({ "type": "object", "required": ["name"], "properties": { "name": text } });
    let namespace = json!({ "type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" });
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": false,
        "required": ["image"],
        "properties": {
            "image": { "type": "string", "minLength": 1 },
            "imagePullSecrets": list(named.clone()),
            "watchNamespaces": { "type": "array", "items": namespace, "uniqueItems": true },
            "env": list(named),
            "resources": object,
            "affinity": object,
            "nodeSelector": { "type": "object", "additionalProperties": text },
            "tolerations": list(object.clone()),
            "priorityClassName": text,
            "podAnnotations": { "type": "object", "additionalProperties": text },
            // Helm's own, for charts that have this one as a part.
            "global": object,
        },
    })
}

fn readme(package: &Package, publisher: &Publisher) -> String {
    let (name, namespace) = (package.name, package.namespace);
    format!(
        "# {}\n\n{}\n\n```sh\nhelm install {name} oci://{}/charts/{name} -n {namespace} --create-namespace\n```\n\n\
        `values.yaml` lists every value; `values.schema.json` rejects all others. The CustomResourceDefinition is \
        upgraded with the release, and stays when that is uninstalled, with every object of its kind. Documentation: \
        {}.\n",
        package.texts.title,
        package.texts.description.trim(),
        publisher.registry,
        publisher.page(package.docs)
    )
}

fn notes(package: &Package) -> String {
    let sample = package.samples.first().map_or("", |sample| sample.file);
    let mut text =
        format!("{} {{{{ .Chart.Version }}}} is installed in namespace {NAMESPACE}.\n\n", package.texts.title);
    // The first is that of agents as a OneAgent has them without a word; the docs say how to have the other mode.
    if let Some(account) = package.accounts.first() {
        let _ = write!(
            text,
            "Agents are privileged. Let them start:\n  kubectl label namespace {NAMESPACE} \
            pod-security.kubernetes.io/enforce=privileged --overwrite\nOn OpenShift also run, so that they reach \
            all nodes:\n  oc -n {NAMESPACE} adm policy add-scc-to-user privileged -z {account}\n  oc annotate \
            namespace {NAMESPACE} openshift.io/node-selector= --overwrite\n\n",
        );
    }
    let _ = write!(
        text,
        "Next: config/{}/samples/{sample} of the repository.\nThe CustomResourceDefinition stays when this release is \
        uninstalled, and with it every object of its kind.\n",
        package.name
    );
    text
}

/// The operator's rights in namespaces beside its own.
fn watched(package: &Package) -> Result<String, Error> {
    let object = |kind: &str| {
        labelled(json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": { "name": package.name, "namespace": "{{ . }}",
                "labels": { "app.kubernetes.io/name": package.name } } }))
    };
    let (mut role, mut binding) = (object("Role"), object("RoleBinding"));
    role["rules"] = rules(package, Where::Watched).into();
    binding["roleRef"] = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": package.name });
    binding["subjects"] =
        json!([{ "kind": "ServiceAccount", "name": package.name, "namespace": "{{ $.Release.Namespace }}" }]);
    // Within `range` the release is known by another name.
    let text = yaml(&[role, binding])?.replace("{{ .Release", "{{ $.Release").replace("{{ .Chart", "{{ $.Chart");
    let text = text.replace("-{{ .Chart", "-{{ $.Chart");
    let (head, objects) = text.split_once('\n').unwrap_or_default();
    Ok(format!(
        "{head}\n{{{{- $watched := .Values.watchNamespaces | default list }}}}\n\
        {{{{- range without $watched .Release.Namespace }}}}\n---\n{objects}{{{{- end }}}}\n"
    ))
}

fn deployment(package: &Package) -> Result<String, Error> {
    let setting = Setting { namespace: NAMESPACE, image: IMAGE, watched: json!({ "value": WATCHED }) };
    let mut deployment = labelled(deployment::deployment(package, &setting));
    let value = |name: &str| Value::from(format!("{VALUE}{name}"));
    let template = &mut deployment["spec"]["template"];
    template["metadata"]["annotations"][format!("{VALUE}podAnnotations")] = "".into();
    let pod = &mut template["spec"];
    for name in ["affinity", "imagePullSecrets", "nodeSelector", "priorityClassName", "tolerations"] {
        pod[name] = value(name);
    }
    let container = &mut pod["containers"][0];
    container["resources"] = value("resources");
    if let Some(env) = container["env"].as_array_mut() {
        env.push(value("env"));
    }
    Ok(yaml(&[deployment])?.lines().map(filled).collect())
}

/// A line of a template; where one marks a value, what Helm makes of that.
fn filled(line: &str) -> String {
    let Some((before, name)) = line.split_once(VALUE) else { return format!("{line}\n") };
    let pad = &line[..line.len() - line.trim_start().len()];
    let name = name.trim_end_matches(": ''");
    let key = before.trim().trim_end_matches(':');
    // A list that continues, a map that continues, or a field.
    let (head, depth) = if key.is_empty() || key == "-" {
        (String::new(), pad.len())
    } else {
        (format!("{pad}{key}:\n"), pad.len() + 2)
    };
    let content = if name == "priorityClassName" {
        format!("{pad}{key}: {{{{ . | quote }}}}\n")
    } else {
        format!("{head}{pad}{{{{- toYaml . | nindent {depth} }}}}\n")
    };
    format!("{pad}{{{{- with .Values.{name} }}}}\n{content}{pad}{{{{- end }}}}\n")
}
