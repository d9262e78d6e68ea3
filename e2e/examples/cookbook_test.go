package examples

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// fewestRecipes is how many docs/cookbook.md has at least.
const fewestRecipes = 20

// recipe is a section of docs/cookbook.md with a part of a configuration and what is
// expected of it.
type recipe struct {
	name   string
	line   int            // of the configuration
	config map[string]any // the whole configuration
	part   map[string]any // what the recipe adds
	tests  map[string]any // a file of tests, without config
}

// recipes returns the recipes of a document, and what is wrong with it.
func recipes(t *testing.T, doc *world.Document) (all []recipe, problems []string) {
	t.Helper()
	heading := headings(doc)
	base := documentBase(doc)
	for i, b := range doc.Blocks {
		switch {
		case b.Info == "yaml fragment":
			r := recipe{name: heading(b.Line), line: b.Line, config: world.DecodeYAML(t, complete(base)),
				part: world.DecodeYAML(t, complete(b.Text()))}
			merge(r.config, world.DecodeYAML(t, complete(b.Text())))
			if i+1 < len(doc.Blocks) && doc.Blocks[i+1].Info == "yaml tests" {
				r.tests = world.DecodeYAML(t, doc.Blocks[i+1].Text())
			}
			all = append(all, r)
			problems = append(problems, r.problems()...)
		case b.Info == "yaml tests" && (i == 0 || doc.Blocks[i-1].Info != "yaml fragment"):
			problems = append(problems, fmt.Sprintf("line %d: tests without a configuration before them", b.Line))
		}
	}
	return all, problems
}

// headings returns a function that names the section with a line.
func headings(doc *world.Document) func(line int) string {
	lines := strings.Split(doc.Text, "\n")
	return func(line int) string {
		for ; line > 0; line-- {
			if name, ok := strings.CutPrefix(lines[line-1], "## "); ok {
				return name
			}
		}
		return ""
	}
}

// problems returns what a recipe lacks: each must show that somebody gets in, and that
// somebody does not.
func (r *recipe) problems() (all []string) {
	outcomes := map[any]bool{}
	tests, _ := r.tests["tests"].([]any)
	for _, one := range tests {
		expect, _ := one.(map[string]any)["expect"].(map[string]any)
		outcomes[expect["outcome"]] = true
	}
	if !outcomes["allow"] {
		all = append(all, r.name+": no test expects allow")
	}
	if !outcomes["challenge"] && !outcomes["forbid"] {
		all = append(all, r.name+": no test expects challenge or forbid")
	}
	return all
}

// trial is a configuration with tests.
type trial struct {
	config, tests map[string]any
	what          string
}

// try runs `authgate test` once for all trials, and returns which of them pass.
func try(t *testing.T, trials []trial) (passed []bool, output string) {
	t.Helper()
	dir := t.TempDir()
	args := []string{"test"}
	for i, one := range trials {
		name, tests := strconv.Itoa(i), maps.Clone(one.tests)
		tests["config"] = name + ".yaml"
		world.WriteAll(t, dir, map[string]string{name + ".yaml": encodeYAML(t, one.config),
			name + ".test.yaml": encodeYAML(t, tests)})
		args = append(args, name+".test.yaml")
	}
	cmd := exec.Command(world.Program("authgate"), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	failed := map[string]bool{} // a test that fails is named with its file, a mistake with that of the configuration
	for _, found := range regexp.MustCompile(`(?m)^(?:FAIL .*\()?(\d+)\.(?:test\.)?yaml:`).FindAllSubmatch(out, -1) {
		failed[string(found[1])] = true
	}
	for i := range trials {
		passed = append(passed, !failed[strconv.Itoa(i)])
	}
	if slices.Contains(passed, false) == (err == nil) {
		t.Fatalf("%v, and read as %v:\n%s", err, passed, out)
	}
	return passed, string(out)
}

// TestDocsCookbook runs the tests of each recipe. Then it weakens the recipe in every
// way that it can, and the recipe's own tests must notice.
func TestDocsCookbook(t *testing.T) {
	t.Parallel()
	all, problems := recipes(t, world.ReadDocument(t, "docs/cookbook.md"))
	for _, problem := range problems {
		t.Errorf("docs/cookbook.md: %s", problem)
	}
	if len(all) < fewestRecipes {
		t.Errorf("docs/cookbook.md has %d recipes, fewer than %d", len(all), fewestRecipes)
	}
	var whole, weaker []trial
	for _, r := range all {
		name := fmt.Sprintf("docs/cookbook.md:%d: %s", r.line, r.name)
		whole = append(whole, trial{r.config, r.tests, name})
		what, configs := weakened(t, r.config, r.part)
		for i := range configs {
			weaker = append(weaker, trial{configs[i], r.tests, name + ": the tests pass without " + what[i]})
		}
	}
	tryAll(t, whole, weaker)
}

// tryAll fails the test unless the whole trials pass, and the weaker ones fail.
func tryAll(t *testing.T, whole, weaker []trial) {
	t.Helper()
	passed, out := try(t, whole)
	for i := range whole {
		if !passed[i] {
			t.Errorf("%s: the tests of configuration %d fail:\n%s", whole[i].what, i, out)
		}
	}
	passed, _ = try(t, weaker)
	for i := range weaker {
		if passed[i] {
			t.Error(weaker[i].what)
		}
	}
}

// weakened returns configurations that lack something that part has, and what: a
// route, the policy of a route, a condition of a policy, or a value of a condition.
func weakened(t *testing.T, config, part map[string]any) (what []string, configs []map[string]any) {
	t.Helper()
	without := func(lacks string, change func(whole map[string]any)) {
		whole := world.DecodeYAML(t, encodeYAML(t, config)) // a copy
		change(whole)
		what, configs = append(what, lacks), append(configs, whole)
	}
	routes, _ := part["routes"].([]any)
	for i, route := range routes {
		match := route.(map[string]any)["match"]
		if len(routes) > 1 {
			without(fmt.Sprintf("the route %v", match), func(whole map[string]any) {
				whole["routes"] = slices.Delete(whole["routes"].([]any), i, i+1)
			})
		}
		if route.(map[string]any)["policy"] != nil {
			without(fmt.Sprintf("the policy of %v", match), func(whole map[string]any) {
				delete(whole["routes"].([]any)[i].(map[string]any), "policy")
			})
		}
	}
	policies, _ := part["policies"].(map[string]any)
	for name, policy := range policies {
		for key := range policy.(map[string]any) {
			without(fmt.Sprintf("%s of the policy %s", key, name), func(whole map[string]any) {
				delete(whole["policies"].(map[string]any)[name].(map[string]any), key)
			})
			list, _ := policy.(map[string]any)[key].([]any)
			for i := range list {
				without(fmt.Sprintf("%s[%d] of the policy %s", key, i, name), func(whole map[string]any) {
					p := whole["policies"].(map[string]any)[name].(map[string]any)
					p[key] = slices.Delete(p[key].([]any), i, i+1)
				})
			}
		}
	}
	return what, configs
}

// TestDocsRecipeProblems checks that recipes cannot leave out what they are for, and
// that what is weakened is noticed.
func TestDocsRecipeProblems(t *testing.T) {
	t.Parallel()
	const start = "## One\n\n```yaml fragment\nroutes: [{match: /, upstream: app, auth: [session], policy: " +
		"admin}]\n```\n\n"
	expecting := func(outcomes ...string) string {
		b := &strings.Builder{}
		b.WriteString("```yaml tests\ntests:\n")
		for _, outcome := range outcomes {
			fmt.Fprintf(b, "  - {request: {method: GET, url: /}, as: bob, expect: {outcome: %s}}\n", outcome)
		}
		return b.String() + "```\n"
	}
	for text, want := range map[string][]string{
		start + expecting("allow", "challenge"): nil,
		start + expecting("allow", "forbid"):    nil,
		start + expecting("allow"):              {"One: no test expects challenge or forbid"},
		start + expecting("allow", "not_found"): {"One: no test expects challenge or forbid"},
		start + expecting("forbid"):             {"One: no test expects allow"},
		start: {"One: no test expects allow",
			"One: no test expects challenge or forbid"},
		expecting("allow"): {"line 1: tests without a configuration before them"},
		start + expecting("allow", "forbid") + expecting("allow"): {"line 12: tests without a configuration before them"},
	} {
		if _, got := recipes(t, world.ParseDocument(t, "x.md", text)); !slices.Equal(got, want) {
			t.Errorf("%s\n%q, want %q", text, got, want)
		}
	}
	r, _ := recipes(t, world.ParseDocument(t, "x.md", start+expecting("allow", "forbid")))
	what, configs := weakened(t, r[0].config, map[string]any{
		"routes":   r[0].part["routes"],
		"policies": map[string]any{"admin": map[string]any{"roles": []any{"admin"}}},
	})
	if want := []string{"the policy of /", "roles of the policy admin",
		"roles[0] of the policy admin"}; !slices.Equal(what, want) {
		t.Errorf("weakened: %q, want %q", what, want)
	}
	for tests, want := range map[string][]bool{ // a policy without a condition is a mistake
		"{request: {method: GET, url: /}, as: bob, expect: {outcome: allow}}":    {true, false, false, true},
		"{request: {method: GET, url: /}, as: alice, expect: {outcome: forbid}}": {false, false, false, true},
	} {
		var trials []trial
		for _, config := range append(slices.Clone(configs), r[0].config) {
			trials = append(trials, trial{config: config, tests: map[string]any{"tests": []any{world.DecodeYAML(t, tests)}}})
		}
		if passed, out := try(t, trials); !slices.Equal(passed, want) {
			t.Errorf("%s: passed %v, want %v\n%s", tests, passed, want, out)
		}
	}
}
