import { createApp } from 'vue';
import App from './App.vue';
import element from './element.js';
import router from './router.js';
import './style.css';

createApp(App).use(element).use(router).mount('#app');
