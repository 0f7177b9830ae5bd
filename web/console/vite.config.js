import { readdirSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import vue from '@vitejs/plugin-vue';
import { defineConfig } from 'vite';

const dist = fileURLToPath(new URL('../../internal/console/dist/', import.meta.url));

// Vite would empty the folder of the file that keeps it in the repository, too.
const tidy = {
  name: 'tidy-dist',
  apply: 'build',
  buildStart() {
    for (const name of readdirSync(dist)) if (!name.startsWith('.')) rmSync(dist + name, { recursive: true });
  },
};

export default defineConfig({
  base: './',
  plugins: [vue(), tidy],
  build: {
    outDir: dist,
    emptyOutDir: false,
    target: 'es2022',
    // Everything comes from files, so that the page's policy need allow nothing inline.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // ECharts is one part of its own, loaded by the overview only.
    chunkSizeWarningLimit: 700,
  },
  server: {
    // For `npm run dev`: a server that runs already.
    proxy: { '/admin': process.env.SECKILL_SERVER || 'http://127.0.0.1:8081' },
  },
});
