package main

import (
	"embed"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// platform is an operating system and a processor, as Go calls them.
type platform struct{ os, arch string }

var platforms = []platform{
	{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"},
}

func (p platform) String() string { return p.os + "/" + p.arch }

// program is the name of the program.
func (p platform) program() string {
	if p.os == "windows" {
		return "authgate.exe"
	}
	return "authgate"
}

// environment makes a build independent of the settings of a user.
func (p platform) environment() []string {
	return []string{
		"GOOS=" + p.os, "GOARCH=" + p.arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0",
		"GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off",
	}
}

// build builds the program for a platform, and returns its path. The bytes depend on
// nothing but the source, the version and the version of Go: -trimpath removes the
// folder, and -buildvcs=false what git says about it.
func (r *release) build(work string, on platform) (string, error) {
	program, err := filepath.Abs(filepath.Join(work, on.os+"-"+on.arch, on.program()))
	if err != nil {
		return "", err
	}
	_, err = output(r.source, on.environment(), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version="+r.version, "-o", program, "./cmd/authgate")
	return program, err
}

//go:embed etc
var examples embed.FS

// prepare makes what all archives and packages have: licences, documents,
// completions, man pages and examples.
func (r *release) prepare(work string) (err error) {
	if r.modules, err = readModules(r.source, platforms); err != nil {
		return err
	}
	tracked, err := output(r.source, nil, "git", "ls-files", "docs")
	if err != nil {
		return err
	}
	names := []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "AGENTS.md"}
	for name := range strings.Lines(tracked) {
		if name = strings.TrimSpace(name); !strings.HasSuffix(name, ".go") {
			names = append(names, name)
		}
	}
	texts, err := readFiles(r.source, names, 0o644)
	if err != nil {
		return err
	}
	told, err := r.ask(work)
	if err != nil {
		return err
	}
	r.texts = texts.with(told...).with(file{name: thirdParty, content: licenceTexts(r.modules), mode: 0o644})
	for _, name := range []string{"config.yaml", "accounts.yaml"} {
		content, err := examples.ReadFile("etc/" + name)
		if err != nil {
			return err
		}
		r.texts = r.texts.with(file{name: "examples/" + name, content: content, mode: 0o644})
	}
	return nil
}

// completions are the files for shells, by the name of the shell.
var completions = map[string]string{
	"bash": "completions/authgate.bash", "fish": "completions/authgate.fish",
	"powershell": "completions/authgate.ps1", "zsh": "completions/_authgate",
}

// ask returns what the program writes about itself: completions and man pages.
func (r *release) ask(work string) (tree, error) {
	program, err := r.build(work, platform{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	var told tree
	for _, shell := range sortedKeys(completions) {
		script, err := output(work, nil, program, "completion", shell)
		if err != nil {
			return nil, err
		}
		told = append(told, file{name: completions[shell], content: []byte(script), mode: 0o644})
	}
	epoch := "SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.time.Unix(), 10)
	if _, err := output(work, []string{epoch}, program, "man", "man/man1"); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(work, "man/man1/*"))
	if err != nil {
		return nil, err
	}
	for i := range pages {
		pages[i] = "man/man1/" + filepath.Base(pages[i])
	}
	written, err := readFiles(work, pages, 0o644)
	return append(told, written...), err
}
