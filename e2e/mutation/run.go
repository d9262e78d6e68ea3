package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/tools/cover"
)

// An outcome is the fate of one mutant.
type outcome string

const (
	killed    outcome = "killed"    // a test failed
	timedOut  outcome = "timed out" // the tests did not end in time
	survived  outcome = "survived"  // all tests passed
	noCompile outcome = "does not compile"
)

// A lab runs the tests of one package on mutants.
type lab struct {
	options
	scratch string // a directory for files that go test reads
}

// run tries a sample of the mutants of a package and reports on out.
func run(ctx context.Context, o options, out io.Writer) error {
	scratch, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	l := &lab{options: o, scratch: scratch}
	mutants, err := l.covered(ctx)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(o.seed, 0))
	random.Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })

	tally := map[outcome]int{}
	for _, m := range mutants {
		if tried := tally[killed] + tally[timedOut] + tally[survived]; o.count > 0 && tried == o.count {
			break
		}
		result, err := l.try(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
		tally[result]++
		if o.verbose || result == survived {
			fmt.Fprintf(out, "%s: %s\n", m, result)
		}
	}
	found := tally[killed] + tally[timedOut]
	tried := found + tally[survived]
	if tried == 0 {
		return errors.New("the tests run no code that can be changed")
	}
	fmt.Fprintf(out, "%s: score %.0f %%: of %d mutants tests found %d (%d by timeout), %d survived; "+
		"seed %d, %d possible, %d did not compile\n",
		o.pkg, 100*float64(found)/float64(tried), tried, found, tally[timedOut], tally[survived],
		o.seed, len(mutants), tally[noCompile])
	return nil
}

// A goPackage is the package to change, as go list describes it.
type goPackage struct{ Dir, ImportPath string }

func (l *lab) list(ctx context.Context) (goPackage, error) {
	var p goPackage
	output, err := l.command(ctx, "list", "-json=Dir,ImportPath", l.pkg).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return p, fmt.Errorf("go list %s: %s", l.pkg, bytes.TrimSpace(exit.Stderr))
	}
	if err == nil {
		err = json.Unmarshal(output, &p)
	}
	return p, err
}

// covered runs the tests without a mutant, and returns the mutants in code
// that they run. It sets the timeout of later runs.
func (l *lab) covered(ctx context.Context) ([]Mutant, error) {
	pkg, err := l.list(ctx)
	if err != nil {
		return nil, err
	}
	profile := filepath.Join(l.scratch, "coverage")
	begin := time.Now()
	if output, err := l.test(ctx, "-coverpkg="+pkg.ImportPath, "-coverprofile="+profile).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("tests without a mutant: %w\n%s", err, output)
	}
	if l.timeout == 0 {
		l.timeout = 3*time.Since(begin) + 30*time.Second
	}
	profiles, err := cover.ParseProfiles(profile)
	if err != nil {
		return nil, err
	}
	var mutants []Mutant
	for _, p := range profiles { // sorted by file
		name := filepath.Base(p.FileName)
		if !l.files.MatchString(name) {
			continue
		}
		path := filepath.Join(pkg.Dir, name)
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all, err := Mutants(path, source)
		if err != nil {
			return nil, err
		}
		mutants = append(mutants, slices.DeleteFunc(all, func(m Mutant) bool { return !runs(p.Blocks, m) })...)
	}
	return mutants, nil
}

// runs reports whether a block that tests run contains the mutant.
func runs(blocks []cover.ProfileBlock, m Mutant) bool {
	for _, b := range blocks {
		after := m.Line > b.StartLine || m.Line == b.StartLine && m.Col >= b.StartCol
		before := m.Line < b.EndLine || m.Line == b.EndLine && m.Col < b.EndCol
		if b.Count > 0 && after && before {
			return true
		}
	}
	return false
}

// try runs the tests on a mutant.
func (l *lab) try(ctx context.Context, m Mutant) (outcome, error) {
	source, err := os.ReadFile(m.File)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(l.scratch, "mutant.go")
	if err := os.WriteFile(changed, m.Apply(source), 0o600); err != nil {
		return "", err
	}
	overlay := filepath.Join(l.scratch, "overlay.json")
	content, err := json.Marshal(map[string]map[string]string{"Replace": {m.File: changed}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, content, 0o600); err != nil {
		return "", err
	}
	output, err := l.test(ctx, "-overlay="+overlay, "-failfast", "-timeout="+l.timeout.String()).Output()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		return survived, nil
	case bytes.Contains(output, []byte("[build failed]")):
		return noCompile, nil
	case bytes.Contains(output, []byte("panic: test timed out")):
		return timedOut, nil
	}
	return killed, nil
}

// test returns a command that runs the tests with further flags.
func (l *lab) test(ctx context.Context, flags ...string) *exec.Cmd {
	args := append([]string{"test", "-short", "-count=1", "-vet=off"}, flags...)
	return l.command(ctx, append(append(args, l.testArgs...), l.tests...)...)
}

func (l *lab) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = l.dir
	cmd.WaitDelay = 5 * time.Second // programs that a killed test has left may hold its output
	return cmd
}
