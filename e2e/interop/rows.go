package main

// row is a counterpart, with the tests that prove that the gateway works with it.
type row struct {
	name    string
	version version
	needs   []string // programs, or files below e2e with a slash; without one of them the row is not tried
	path    string   // a folder below e2e that comes first in PATH, likewise
	tries   []try
	never   string // why no machine of a developer can try it; there is nothing else then
}

// version is how a counterpart tells its version: a command, run in e2e, and a regular
// expression whose group is the version in its output. The group is empty: the first
// word like 1.2 or v1.2.
type version struct {
	command string // for sh
	match   string
}

// try names a subject in a few words, and its test: NAME or NAME/SUBTEST.
type try struct{ what, test string }

// tag is the build tag of the tests that only make interop runs.
const tag = "interop"

// packages are the packages of the tests, seen from e2e.
func packages() []string {
	return []string{"./acme", "./apps", "./browser", "./mcp", "./oauth", "./oidc", "./proxies", "./redis", "./wire"}
}

// goModule is a version command for a Go program that a tool directive names.
func goModule(dir, module string) version {
	return version{"go list -C " + dir + " -m " + module, ""}
}

// nodeModule is a version command for a package from npm.
func nodeModule(dir, name string) version {
	return version{"node -p \"JSON.parse(fs.readFileSync('" + dir + "/node_modules/" + name +
		"/package.json')).version\"", ""}
}

// table is a part of docs/interop.md.
type table struct {
	heading string
	rows    []row
}

// tables are all tables, in the order of docs/interop.md.
func tables() []table {
	return []table{
		{"Identity providers", providers},
		{"Proxies in front", proxies},
		{"Stores", stores},
		{"Certificate authorities", authorities},
		{"Browsers", browsers},
		{"Clients", clients},
		{"Applications and libraries that sign users in here", libraries},
		{"Applications", applications},
		{"Readers of the log", readers},
	}
}

// rows returns the rows of all tables.
func rows() []row {
	var all []row
	for _, t := range tables() {
		all = append(all, t.rows...)
	}
	return all
}
