# `make help` lists what there is. Each target says what it needs.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The patched toolchain; Go fetches it by itself. Plain Go 1.26 works as well:
# make GOTOOLCHAIN=local TARGET.
GOTOOLCHAIN ?= go1.27.3
export GOTOOLCHAIN
# What was compiled in one checkout serves another.
GOFLAGS ?= -trimpath
export GOFLAGS

# Settings, given as `make TARGET NAME=value`.
ARGS ?=
PKG ?= ./...
FUZZTIME ?= 30s
# Go would spend up to a minute on making one interesting input smaller.
FUZZ_FLAGS ?= -fuzzminimizetime=1s
# The tests of internal/e2e build the program themselves, which the cache of results does not see.
TEST_FLAGS ?= -race -shuffle=on -count=1 -timeout=20m
# What is not worth the race detector, which makes it up to five times as slow, is run without: internal/e2e, which runs the program
# as processes of its own, so that only a crowd of buyers would be watched; internal/tidy, which reads files; SQLite, which is C that was turned into Go
# (what is ours in internal/sqlstore is the same for MariaDB, and watched there); and tests that do one thing a million times, or compare
# one more form of the stock with its model: what runs beside what in them is watched in other tests of their packages.
# (To compile some packages without the detector makes it see races that are none: generic code that packages share is linked once.)
PLAIN_TESTS := TestSQLite|TestRefusedLeaveNothing|TestMemoryPerBuyer|TestADayOfSales|TestAMillionBuyers|TenMillion|TestADeliveryIsTriedForADay|TestOverloadOfASlowStock|TestStallsMakeCallsLarger|TestConformance(Split|List|ListSplit|ListCluster|ClusterSplit)$$/AgreesWithModel
PLAIN_PACKAGES := ./stock/redisstock ./internal/sqlstore ./internal/app ./internal/control ./internal/gate ./internal/limit ./internal/webhook ./internal/reserve
PLAIN_TEST_FLAGS ?= -shuffle=on -count=1 -timeout=20m
CHAOS_ROUNDS ?= 50
CHAOS_FLAGS ?= -run Chaos -chaos-rounds=$(CHAOS_ROUNDS) -count=1 -timeout=60m -v
BENCH_FLAGS ?= -run='^$$' -bench=. -benchmem

# Tools have a module of their own, so that what they need never meets what the product needs.
TOOL := go tool -modfile=tools/go.mod
GOTESTSUM = $(TOOL) gotestsum --format=pkgname --format-hide-empty-pkg --

# Go files of this checkout, also those not committed yet, without other people's.
GO_FILES = $$(find . \( -name node_modules -o -name .git -o -name bin -o -name build \) -prune -o -name '*.go' -print)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z][a-z-]*:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

##@ Use

.PHONY: demo
demo: build ## Start everything in one process and print where to look (ARGS="--buyers 1000")
	@exec bin/seckill demo $(ARGS)

# npm leaves a copy of the lock file behind; it is older when the lock file has changed since.
.PHONY: console
console: ## Build the admin console for the next build to embed (needs Node 20.19 or later)
	@installed=web/console/node_modules/.package-lock.json; \
	if [[ ! -e $$installed || web/console/package-lock.json -nt $$installed ]]; then npm --prefix web/console ci --no-audit --no-fund; fi
	npm --prefix web/console run build

# Without `make console` before, the program works and says how to get the console.
.PHONY: build
build: ## Build bin/seckill
	@mkdir -p bin
	go build -trimpath -o bin/seckill ./cmd/seckill

##@ Prove

# On two processors two things run at once: what computes, beside what waits for servers. The console is built first, as the
# program embeds it.
.PHONY: test
test: export SECKILL_TEST_REQUIRE = 1
test: ## Install what the tests need, then run every test
	@scripts/setup-tests.sh
	@$(MAKE) console build vet fmt-check
	@$(MAKE) -j2 test-packages test-plain
	@$(MAKE) -j2 test-program test-pages

.PHONY: test-go
test-go: ## Run the Go tests only, with what is there (PKG=./stock/...)
ifeq ($(PKG),./...)
	@$(MAKE) -j2 test-packages test-plain
	@$(MAKE) test-program
else
	@$(GOTESTSUM) $(TEST_FLAGS) $(PKG)
endif

.PHONY: test-browser
test-browser: console build test-pages ## Run the browser tests only

# Those that take longest first, or the last of them would run alone at the end.
.PHONY: test-packages
test-packages:
	@$(GOTESTSUM) $(TEST_FLAGS) -skip='$(PLAIN_TESTS)' ./stock/redisstock ./queue/... ./internal/control ./internal/app $$(go list ./... | grep -vx -e seckill/internal/e2e -e seckill/internal/tidy)

.PHONY: test-plain
test-plain:
	@$(GOTESTSUM) $(PLAIN_TEST_FLAGS) -p=1 -run='$(PLAIN_TESTS)' $(PLAIN_PACKAGES)

.PHONY: test-program
test-program:
	@$(GOTESTSUM) $(PLAIN_TEST_FLAGS) -parallel=4 ./internal/e2e ./internal/tidy

# The folder brings its own runner; web/test/package.json says which.
.PHONY: test-pages
test-pages:
	@npm --prefix web/test test

.PHONY: check
check: fmt-check vet tidy lint ## Run everything that reads the code without running it

.PHONY: lint
lint: ## Run the linters (the first time builds them, which takes minutes)
	@echo 'lint: golangci-lint'
	@$(TOOL) golangci-lint run ./...

.PHONY: vet
vet: ## Run go vet
	go vet ./...

.PHONY: tidy
tidy: ## Check go.mod and the house rules of internal/tidy
	go mod tidy -diff
	go test ./internal/tidy

.PHONY: fmt
fmt: ## Format the Go code
	@gofmt -w $(GO_FILES)

.PHONY: fmt-check
fmt-check: ## Check that the Go code is formatted
	@files=$$(gofmt -l $(GO_FILES)); if [[ -n $$files ]]; then echo "not formatted, run make fmt:"; echo "$$files"; exit 1; fi
	@echo 'gofmt: all files are formatted'

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME
	@targets=$$(find . -name node_modules -prune -o -name '*_test.go' -exec grep -HoE '^func Fuzz[A-Za-z0-9_]*' {} + | sort); \
	total=$$(grep -c . <<<"$$targets" || true); n=0; \
	while IFS=: read -r file func; do \
	  [[ -n $$file ]] || continue; n=$$((n + 1)); \
	  echo "fuzz $$n of $$total: $${func#func } in $$(dirname $$file) for $(FUZZTIME)"; \
	  go test -run='^$$' -fuzz="^$${func#func }\$$" -fuzztime=$(FUZZTIME) $(FUZZ_FLAGS) "$$(dirname $$file)"; \
	done <<<"$$targets"; \
	echo "fuzz: $$n targets done"

.PHONY: chaos
chaos: ## Kill and restart parts under load, CHAOS_ROUNDS times
	go test ./internal/e2e $(CHAOS_FLAGS)

##@ Measure

.PHONY: bench
bench: ## Run the Go benchmarks (PKG=./stock/...)
	go test $(BENCH_FLAGS) $(PKG)

.PHONY: bench-engines
bench-engines: ## Compare the HTTP engines
	bench/engines/run.sh

# docs/benchmarks.md says what each goal needs; nginx is not always on the path.
.PHONY: bench-goals
bench-goals: build ## Measure the goals of docs/benchmarks.md again (ARGS="p1", ARGS="-rounds 3 p9")
	PATH="$$PATH:/usr/sbin" go run ./bench/goals -seckill bin/seckill $(ARGS)

##@ Clean up

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin build coverage coverage.out coverage.html
