package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Switch is how a switch of the program stands, and what is planned for it.
type Switch struct {
	Name      string          `json:"name"`
	Value     json.RawMessage `json:"value"` // true or false, or a whole number.
	Default   json.RawMessage `json:"default"`
	ChangedAt *time.Time      `json:"changed_at"` // nil if nobody has turned it yet.
	ChangedBy string          `json:"changed_by"`
	Reason    string          `json:"reason"`
	Scheduled []SwitchPlan    `json:"scheduled"`
}

// SwitchPlan is a change of a switch that is to come.
type SwitchPlan struct {
	ID     int64           `json:"id"`
	Value  json.RawMessage `json:"value"`
	At     time.Time       `json:"at"`
	By     string          `json:"by"`
	Reason string          `json:"reason"`
}

// Guard is something that acts by itself, and why it acted.
type Guard struct {
	Name   string     `json:"name"`
	Acting bool       `json:"acting"`
	Since  *time.Time `json:"since"` // nil if it never acted.
	Reason string     `json:"reason"`
	Figure string     `json:"figure"`
}

// Switches is how everything stands that holds buyers back.
type Switches struct {
	Switches []Switch `json:"switches"`
	Guards   []Guard  `json:"guards"`
	// StaleSeconds is how old this is if the server cannot ask its database, else 0.
	StaleSeconds float64 `json:"stale_seconds"`
}

// SwitchChange turns a switch.
type SwitchChange struct {
	Value  any        `json:"value"`        // A bool, or a whole number.
	Reason string     `json:"reason"`       // Required.
	At     *time.Time `json:"at,omitempty"` // Later; nil for now.
}

// SwitchTrial says what a change of a switch would do.
type SwitchTrial struct {
	Name   string          `json:"name"`
	From   json.RawMessage `json:"from"`
	To     json.RawMessage `json:"to"`
	Effect struct {
		Says               string   `json:"says"` // In words.
		OpenActivities     int      `json:"open_activities"`
		RefusedPercent     int      `json:"refused_percent"`
		PurchasesPerSecond *float64 `json:"purchases_per_second"` // nil if not known.
		RefusedPerSecond   *float64 `json:"refused_per_second"`
	} `json:"effect"`
}

const (
	switchesPath = "/admin/v1/switches"
	blocksPath   = "/admin/v1/blocks"
)

// Switches lists them, and what acts by itself.
func (a *Admin) Switches(ctx context.Context) (Switches, error) {
	var got Switches
	err := a.c.do(ctx, call{method: http.MethodGet, path: switchesPath}, &got)
	return got, err
}

// SetSwitch turns a switch, now or later. One that is planned is asked for once.
func (a *Admin) SetSwitch(ctx context.Context, name string, c SwitchChange) (Switch, error) {
	var got Switch
	err := a.c.do(ctx, call{method: http.MethodPut, path: switchesPath + "/" + url.PathEscape(name), body: c, once: c.At != nil}, &got)
	return got, err
}

// TrySwitch says what a change of a switch would do, and changes nothing.
func (a *Admin) TrySwitch(ctx context.Context, name string, c SwitchChange) (SwitchTrial, error) {
	var got SwitchTrial
	body := struct {
		SwitchChange
		DryRun bool `json:"dry_run"`
	}{c, true}
	err := a.c.do(ctx, call{method: http.MethodPut, path: switchesPath + "/" + url.PathEscape(name), body: body}, &got)
	return got, err
}

// CancelSwitch takes back a change that is to come. It is asked for once.
func (a *Admin) CancelSwitch(ctx context.Context, name string, plan int64) error {
	path := switchesPath + "/" + url.PathEscape(name) + "/scheduled/" + strconv.FormatInt(plan, 10)
	return a.c.do(ctx, call{method: http.MethodDelete, path: path, once: true}, nil)
}

// Block keeps somebody from buying.
type Block struct {
	ID        int64      `json:"id"`
	Kind      string     `json:"kind"` // ip, cidr, user or device.
	Value     string     `json:"value"`
	Until     *time.Time `json:"until"` // nil if it does not end by itself.
	Reason    string     `json:"reason"`
	Source    string     `json:"source"` // operator, or automatic.
	CreatedAt time.Time  `json:"created_at"`
	CreatedBy string     `json:"created_by"`
}

// NewBlock is a block that is to be made.
type NewBlock struct {
	Kind   string     `json:"kind"`
	Value  string     `json:"value"`
	Until  *time.Time `json:"until,omitempty"`
	Reason string     `json:"reason"` // Required.
}

// Blocks that are active, newest first, a page of them from a cursor ("" from the newest).
func (a *Admin) Blocks(ctx context.Context, cursor string) (blocks []Block, next string, err error) {
	var list struct {
		Blocks []Block `json:"blocks"`
		paged
	}
	err = a.c.do(ctx, call{method: http.MethodGet, path: blocksPath, query: page(cursor)}, &list)
	return list.Blocks, list.Cursor, err
}

// AddBlock blocks somebody, in place of an active block of the same kind and value.
func (a *Admin) AddBlock(ctx context.Context, b NewBlock) (Block, error) {
	var got Block
	err := a.c.do(ctx, call{method: http.MethodPost, path: blocksPath, body: b}, &got)
	return got, err
}

// RemoveBlock ends a block. It is asked for once.
func (a *Admin) RemoveBlock(ctx context.Context, id int64) error {
	return a.c.do(ctx, call{method: http.MethodDelete, path: blocksPath + "/" + strconv.FormatInt(id, 10), once: true}, nil)
}

// Audience is what is known of an activity's list of buyers.
type Audience struct {
	Count     int64      `json:"count"`
	Version   int64      `json:"version"`    // 0 if there never was a list.
	UpdatedAt *time.Time `json:"updated_at"` // nil if there never was a list.
}

// Audience of an activity.
func (a *Admin) Audience(ctx context.Context, id int64) (Audience, error) {
	var got Audience
	err := a.c.do(ctx, call{method: http.MethodGet, path: activityPath(id, "/audience")}, &got)
	return got, err
}

// PutAudience replaces an activity's list by text with a buyer's id on each line, or a JSON array of them.
func (a *Admin) PutAudience(ctx context.Context, id int64, buyers []byte, isJSON bool) (Audience, error) {
	kind := "text/plain; charset=utf-8"
	if isJSON {
		kind = "application/json"
	}
	var got Audience
	err := a.c.do(ctx, call{method: http.MethodPut, path: activityPath(id, "/audience"), body: buyers, kind: kind}, &got)
	return got, err
}
