package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// billOfMaterials returns the SBOM of a program in the format of CycloneDX: the
// modules that the program itself lists, with their licences.
func (r *release) billOfMaterials(program string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	hash := fmt.Sprintf("%x", sha256.Sum256(content))
	found := []cdx.Component{r.component(standardLibrary, strings.TrimPrefix(info.GoVersion, "go"))}
	for _, dependency := range info.Deps {
		if r.modules[dependency.Path] == nil || dependency.Replace != nil {
			return nil, fmt.Errorf("the licence of %s is not known", dependency.Path)
		}
		found = append(found, r.component(dependency.Path, dependency.Version))
	}
	var refs []string
	for _, c := range found {
		refs = append(refs, c.BOMRef)
	}
	main := cdx.Component{
		BOMRef: "authgate", Type: cdx.ComponentTypeApplication, Name: "authgate", Version: r.version,
		Licenses: &cdx.Licenses{{Expression: "Apache-2.0"}},
		Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hash}},
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte("authgate "+hash)).URN()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &main}
	bom.Components = &found
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	err = cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bom)
	return out.Bytes(), err
}

// component describes a module as a package URL does (purl-spec, golang).
func (r *release) component(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cdx.Component{
		BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url, Scope: cdx.ScopeRequired,
		Licenses: &cdx.Licenses{{Expression: r.modules[path].expression()}},
	}
}
